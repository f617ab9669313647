"""A fixed set of histories and their repairs as text, to be printed by one process for another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from tests.property.outline import FORMATS
from tests.property.promises import mend
from tests.property.strategies import seeded

SEEDS = range(36)


def _plain(value: Any) -> Any:
    return repr(value) if isinstance(value, bytes) else value.model_dump(warnings=False)


def as_lines() -> Iterator[str]:
    for wire in FORMATS:
        for seed in SEEDS:
            for with_policy in (False, True):
                outcome = mend(seeded(seed, wire, with_policy=with_policy))
                yield json.dumps(
                    [
                        list(outcome.messages),
                        dict(outcome.counts),
                        [repr(finding) for finding in outcome.findings],
                        [[edit.operation, edit.index, edit.source] for edit in outcome.edits],
                    ],
                    default=_plain,
                )


if __name__ == "__main__":
    sys.stdout.write("\n".join(as_lines()))
