"""The arguments of a call, scanned but never converted."""

from __future__ import annotations

import json

# Numbers stay text: an integer of 5,000 digits is legal JSON that `int` refuses to read.
_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str)


def is_json_object(value: object) -> bool:
    """Tell whether a value is a string that holds a JSON object.

    NaN and Infinity are accepted, and so is what is nested too deep to be scanned: unknown counts
    as fine.
    """
    if not isinstance(value, str):
        return False
    try:
        return isinstance(_SCANNER.decode(value), dict)
    except RecursionError:
        return True
    except ValueError:
        return False
