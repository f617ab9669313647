"""Results: whatever a tool returns becomes a text that can be sent."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import json
import math
from typing import Any

import pytest
from pydantic import BaseModel

from toolmend import ToolCallFailed, Tools, tool_call
from toolmend.execution.results import text_of_result


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError


class HalfRepr:
    def __repr__(self) -> str:
        return "\ud800"


@dataclasses.dataclass
class Row:
    a: int
    b: object = None


class Model(BaseModel):
    a: object


class Kind(str, enum.Enum):
    ONE = "one"


class OddText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError

    def encode(self, *_: object) -> bytes:
        raise RuntimeError


class OddList(list):
    def __iter__(self):
        raise RuntimeError


def around_itself() -> list[object]:
    made: list[object] = []
    made.append(made)
    return made


def named_around_itself() -> dict[str, object]:
    made: dict[str, object] = {}
    made["me"] = made
    return made


def deep() -> list[object]:
    made: list[object] = []
    for _ in range(100_000):
        made = [made]
    return made


def breaks_off():
    yield 1
    raise RuntimeError


EXACT = {
    "none": (None, "done, no output"),
    "text": ("x", "x"),
    "empty": ("", ""),
    "number": (5, "5"),
    "true": (True, "true"),
    "list": ([1, "a", None], '[1,"a",null]'),
    "letters": ({"a": "ü"}, '{"a":"ü"}'),
    "bytes": (b"ok", "ok"),
    "binary": (b"\xff" * 5, "(5 bytes of binary data)"),
    "bytearray": (bytearray(b"ok"), "ok"),
    "memory": (memoryview(b"abcdef")[::2], "ace"),
    "nan": (math.nan, "NaN"),
    "infinity": ([math.inf], "[Infinity]"),
    "dataclass": (Row(1, Row(2)), '{"a":1,"b":{"a":2,"b":null}}'),
    "model": (Model(a=1), '{"a":1}'),
    "enum": (Kind.ONE, "one"),
    "time": (dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), '"2024-01-01T00:00:00Z"'),
    "decimal": (decimal.Decimal("1.50"), '"1.50"'),
    "set": ({1}, "[1]"),
    "keys": ({(1, 2): 3, None: 4}, '{"1,2":3,"None":4}'),
    "counter": (collections.Counter("aab"), '{"a":2,"b":1}'),
    "generator": ((number for number in range(3)), "[0,1,2]"),
    "no-repr": (NoRepr(), '"(NoRepr)"'),
    "no-repr-inside": ([Row(1, NoRepr())], '[{"a":1,"b":"(NoRepr)"}]'),
    "half-repr": (HalfRepr(), "?"),
    "surrogate": ("a\ud800b", "a?b"),
    "odd-text": (OddText("abc"), "abc"),
    "error": (ValueError("x"), "\"ValueError('x')\""),
}


@pytest.mark.parametrize(("value", "text"), EXACT.values(), ids=EXACT.keys())
def test_text(value, text):
    assert text_of_result(value) == text


STRANGE = {
    "around-itself": around_itself(),
    "named-around-itself": named_around_itself(),
    "model-around-itself": Model(a=around_itself()),
    "deep": deep(),
    "binary-inside": {"a": b"\xff"},
    "surrogate-inside": ["\ud800"],
    "surrogate-name": {"\ud800": 1},
    "odd-list": OddList([1]),
    "breaks-off": breaks_off(),
    "function": print,
    "class": int,
    "huge-number": 10**5000,
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE.keys())
def test_what_no_json_can_say_is_a_text_all_the_same(value):
    text = text_of_result(value)
    assert text
    text.encode()


@pytest.mark.parametrize(
    "value",
    ["x" * 50_000_000, b"x" * 50_000_000, ["x" * 1000] * 50_000, itertools.repeat("x" * 100)],
    ids=["text", "bytes", "list", "endless"],
)
def test_what_is_too_long_is_cut(value):
    text = text_of_result(value)
    assert len(text) < 1_000_100
    assert text.endswith("characters in all)")
    assert text_of_result("x" * 20, max_chars=5) == "xxxxx\n(cut: 20 characters in all)"


def run(tool: Any) -> str:
    tools = Tools()
    tools.register(tool)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    [result] = tools.run_sync({"role": "assistant", "content": None, "tool_calls": [call]})
    json.dumps(result, ensure_ascii=False).encode()
    return result["content"]


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "warn"])
def test_strange_results_under_a_schema(value, strict):
    @tool_call(result_schema={"type": "object", "required": ["x"]}, strict_result=strict)
    def look() -> object:
        return value

    said = run(look)
    assert (
        said
        == "look returned malformed data. It may have happened all the same: do not repeat it, check first."
    ) == strict


def test_a_result_that_is_wrong_under_a_schema_is_never_shown_when_it_is_strict():
    @tool_call(
        result_schema={"properties": {"x": {"type": "integer"}}},
        strict_result=True,
        effect="read",
        retry=None,
    )
    def look() -> object:
        return {"x": "hunter2"}

    with pytest.raises(ToolCallFailed) as told:
        look()
    assert told.value.text_for_model == "look returned malformed data."
    assert "hunter2" not in repr(told.value)


def test_a_result_that_can_be_read_once_reaches_the_model():
    @tool_call(result_schema={"type": "array"})
    def look() -> object:
        return (number for number in range(3))

    assert run(look) == "[0,1,2]"


@pytest.mark.parametrize(
    ("said", "fails"),
    [
        (None, False),
        (True, False),
        ("", False),
        (5, False),
        (False, True),
        ("too short", True),
        (ValueError(), True),
    ],
    ids=repr,
)
def test_a_check_of_ones_own(said, fails):
    def check(value: object) -> object:
        if isinstance(said, Exception):
            raise said
        return said

    look = tool_call(
        lambda: 1, name="look", check_result=check, strict_result=True, effect="read", retry=None
    )
    if fails:
        with pytest.raises(ToolCallFailed) as told:
            look()
        assert told.value.error_type == "invalid_result"
    else:
        assert look() == 1
