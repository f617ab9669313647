"""Arguments: whatever a model writes ends in values that the tool's types take, or in one clear error."""

# Annotations and times as people write them, names included that nobody finds.
# ruff: noqa: DTZ001, F821, UP037, UP045

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import math
import uuid
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

import toolmend
from tests.execution.ids import stable
from toolmend import ToolCallFailed, ToolContext, breaker_of, tool_call
from toolmend.execution.arguments import MAX_BYTES
from toolmend.execution.context import ToolContext as Surroundings
from toolmend.execution.failures import AttemptFailed
from toolmend.execution.guard import guard_of

UTC = dt.timezone.utc


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Person(BaseModel):
    name: str
    born: Optional[dt.datetime] = None


class Exact(BaseModel, strict=True):
    when: dt.datetime


class Place(TypedDict):
    city: str
    street: NotRequired[str]


class Node(BaseModel):
    v: int
    inner: list[Node] = []


def read(tool: Any, written: object) -> dict[str, object]:
    guard = guard_of(tool)
    assert guard is not None
    return guard.arguments.ready(guard.arguments.read(written))


def refusal(tool: Any, written: object) -> str:
    with pytest.raises(AttemptFailed) as told:
        read(tool, written)
    assert told.value.failure.error_type == "invalid_arguments"
    return told.value.failure.message


@tool_call
def text_tool(x: str) -> str:
    return x


@tool_call
def any_tool(x: Any = None, **rest: Any) -> Any:
    return x


@tool_call
def number_tool(x: float = 0.0, n: int = 0) -> tuple[float, int]:
    return x, n


def nested(depth: int) -> dict[str, object]:
    made: dict[str, object] = {}
    for _ in range(depth):
        made = {"x": made}
    return made


@pytest.mark.parametrize(
    ("written", "told"),
    [
        pytest.param("[1]", "one JSON object", id="list"),
        pytest.param("3", "one JSON object", id="number"),
        pytest.param("null", "one JSON object", id="null"),
        pytest.param('"{}"', "one JSON object", id="text-in-text"),
        pytest.param([], "one JSON object", id="list-object"),
        pytest.param(5, "one JSON object", id="number-object"),
        pytest.param(b"{}", "one JSON object", id="bytes"),
        pytest.param('{"x"', "no valid JSON", id="cut"),
        pytest.param('{"x": 1} and', "no valid JSON", id="trailing"),
        pytest.param("\ufeff{}", "no valid JSON", id="byte-order-mark"),
        pytest.param('{"x": NaN}', "no valid JSON", id="nan"),
        pytest.param('{"x": Infinity}', "no valid JSON", id="infinity"),
        pytest.param('{"x": -Infinity}', "no valid JSON", id="minus-infinity"),
        pytest.param('{"x": 1e999}', "too large a number", id="number-that-becomes-infinite"),
        pytest.param('{"x": [-1e999]}', "too large a number", id="inside-a-list"),
        pytest.param('{"x": 1' + "0" * 5000 + "}", "no valid JSON", id="endless-digits"),
        pytest.param('{"x": 1, "x": 2}', "'x' is given twice", id="twice"),
        pytest.param('{"x": {"y": 1, "z": 2, "y": 1}}', "'y' is given twice", id="twice-inside"),
        pytest.param('{"x": "\\ud83d"}', "half a character", id="lone-surrogate"),
        pytest.param('{"\\ud83d": 1}', "half a character", id="lone-surrogate-as-a-name"),
        pytest.param({"x": ["\ud83d"]}, "half a character", id="lone-surrogate-object"),
        pytest.param({"x": {"\ud83d": 1}}, "half a character", id="lone-surrogate-name-object"),
        pytest.param("[" * 3000 + "]" * 3000, "deeper than 64", id="deep-list"),
        pytest.param('{"x":' * 3000 + "1" + "}" * 3000, "deeper than 64", id="deep-text"),
        pytest.param('{"x":' * 200_000, "longer than", id="deep-and-long"),
        pytest.param(nested(3000), "deeper than 64", id="deep-object"),
        pytest.param(nested(66), "deeper than 64", id="a-little-too-deep"),
        pytest.param('{"x": "' + "a" * 10_000_000 + '"}', "longer than", id="10-mb-text"),
        pytest.param({"x": "a" * 10_000_000}, "larger than", id="10-mb-object"),
        pytest.param({"x": [0] * 10_000_000}, "larger than", id="10-million-items"),
        pytest.param({"x": [0] * MAX_BYTES}, "larger than", id="an-item-too-many"),
        pytest.param({"x": [[0, 0]] * (MAX_BYTES // 2)}, "larger than", id="lists-too-many"),
        pytest.param({"a" * 300_000: 1}, "larger than", id="long-name"),
    ],
)
def test_what_no_tool_can_be_called_with(written, told):
    assert told in refusal(any_tool, written)


def test_what_contains_itself():
    value: list[object] = []
    value.append(value)
    assert "deeper than 64" in refusal(any_tool, {"x": value})


@pytest.mark.parametrize("written", [None, "", "{}", {}], ids=repr)
def test_no_arguments(written):
    assert read(any_tool, written) == {}


@pytest.mark.parametrize(
    "written",
    [
        {"x": "a" * (MAX_BYTES - 10)},
        json.dumps({"x": "a" * (MAX_BYTES - 20)}),
        nested(60),
        '{"x": "\\ud83d\\ude00"}',
        {"x": 10**400},
        {"x": [0] * (MAX_BYTES - 10)},
        {"x": [[0]] * (MAX_BYTES // 2 - 10)},
    ],
    ids=["large-object", "large-text", "deep", "both-halves", "huge-number", "long-list", "lists"],
)
def test_what_just_fits(written):
    assert "x" in read(any_tool, written)


@pytest.mark.parametrize(
    "written",
    ['{"\\ud83d": 1}', '{"x": "\\ud83d"}', '{"x": 1e999}', '{"x": 1, "x": 2}', "[" * 3000],
    ids=["surrogate-name", "surrogate", "infinite", "twice", "deep"],
)
def test_no_model_can_close_a_tool_for_everyone_by_what_it_writes(written):
    @tool_call
    def look(**arguments: object) -> None:
        raise AssertionError

    tools = toolmend.Tools()
    tools.register(look)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": written}}
    [result] = tools.run_sync({"role": "assistant", "content": None, "tool_calls": [call]})
    assert "not valid" in result["content"]
    result["content"].encode()
    assert breaker_of(look).state == "closed"


def takes_datetime(x: dt.datetime) -> None: ...
def takes_date(x: dt.date) -> None: ...
def takes_time(x: dt.time) -> None: ...
def takes_duration(x: dt.timedelta) -> None: ...
def takes_enum(x: Colour) -> None: ...
def takes_literal(x: Literal["a", 1]) -> None: ...
def takes_optional(x: Optional[int]) -> None: ...
def takes_union(x: int | None) -> None: ...
def takes_text_annotation(x: "int") -> None: ...
def takes_dataclass(x: Point) -> None: ...
def takes_model(x: Person) -> None: ...
def takes_strict_model(x: Exact) -> None: ...
def takes_typed_dict(x: Place) -> None: ...
def takes_tree(x: Node) -> None: ...
def takes_bounded(x: Annotated[int, Field(ge=1, le=5, description="how many")]) -> None: ...
def takes_aliased(x: Annotated[str, Field(alias="why", max_length=3)]) -> None: ...
def takes_field_default(x: int = Field(5, ge=1, description="how many")) -> None: ...
def takes_set(x: set[int]) -> None: ...
def takes_tuple(x: tuple[int, str]) -> None: ...
def takes_decimal(x: decimal.Decimal) -> None: ...
def takes_uuid(x: uuid.UUID) -> None: ...
def takes_bytes(x: bytes) -> None: ...
def takes_unknown(x: Nothing) -> None: ...
def takes_anything(x) -> None: ...


@pytest.mark.parametrize(
    ("function", "written", "value", "refused"),
    [
        (
            takes_datetime,
            "2024-01-01T10:00:00Z",
            dt.datetime(2024, 1, 1, 10, tzinfo=UTC),
            "soon",
        ),
        (takes_datetime, "2024-01-01T10:00:00", dt.datetime(2024, 1, 1, 10), "2024-13-01"),
        (takes_date, "2024-01-01", dt.date(2024, 1, 1), "yesterday"),
        (takes_time, "10:00:00", dt.time(10), "noon"),
        (takes_duration, "PT1.5S", dt.timedelta(seconds=1.5), "long"),
        (takes_enum, "red", Colour.RED, "green"),
        (takes_literal, 1, 1, "b"),
        (takes_optional, None, None, "x"),
        (takes_union, 3, 3, "x"),
        (takes_text_annotation, 3, 3, "x"),
        (takes_dataclass, {"x": 1}, Point(1), {"y": 1}),
        (takes_model, {"name": "a"}, Person(name="a"), {"name": 5}),
        (
            takes_strict_model,
            {"when": "2024-01-01T00:00:00Z"},
            Exact(when=dt.datetime(2024, 1, 1, tzinfo=UTC)),
            {"when": "soon"},
        ),
        (takes_typed_dict, {"city": "a"}, {"city": "a"}, {"street": "b"}),
        (
            takes_tree,
            {"v": 1, "inner": [{"v": 2}]},
            Node(v=1, inner=[Node(v=2)]),
            {"v": 1, "inner": [{}]},
        ),
        (takes_bounded, 5, 5, 6),
        (takes_aliased, "abc", "abc", "abcd"),
        (takes_field_default, 1, 1, 0),
        (takes_set, [1, 2], {1, 2}, ["x"]),
        (takes_tuple, [1, "a"], (1, "a"), ["a", 1]),
        (takes_decimal, "1.50", decimal.Decimal("1.50"), "much"),
        (
            takes_uuid,
            "12345678-1234-1234-1234-123456789012",
            uuid.UUID("12345678123412341234123456789012"),
            "x",
        ),
        (takes_bytes, "abc", b"abc", 5),
        (takes_unknown, [1], [1], None),
        (takes_anything, [1], [1], None),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_values_become_what_the_types_say(function, written, value, refused):
    tool = tool_call(function)
    assert read(tool, json.dumps({"x": written})) == {"x": value}
    if refused is not None:
        assert "x" in refusal(tool, json.dumps({"x": refused}))
    # Called from Python, the same objects go through as they are.
    assert tool(value) is None
    assert tool(x=value) is None


def test_what_the_model_is_told_and_what_telemetry_is():
    with pytest.raises(AttemptFailed) as told:
        read(tool_call(takes_enum), {"x": "hunter2"})
    failure = told.value.failure
    assert failure.message == (
        'x: "hunter2" is not one of "red" or "blue" (allowed: [\'red\', \'blue\']) [enum].'
    )
    assert failure.where == "$defs/Colour/enum"


@pytest.mark.parametrize(
    ("tool", "written"),
    [
        (text_tool, {"x": "a", "secret_name": "hunter2"}),
        (text_tool, {"x": ["hunter2"]}),
        (text_tool, {"secret_name": "hunter2"}),
        (number_tool, {"x": 10**400}),
        (tool_call(takes_tree), {"x": {"v": 1, "inner": [{"v": "hunter2", "secret_name": 1}]}}),
        (tool_call(takes_strict_model), {"x": {"when": "hunter2"}}),
        (
            tool_call(prepare_arguments=lambda given: int(given["x"]))(takes_anything),
            {"x": "hunter2"},
        ),
    ],
    ids=["unknown-name", "wrong-type", "missing", "conversion", "inside", "strict", "prepare"],
)
def test_telemetry_gets_no_value_and_no_name_that_a_model_wrote(tool, written):
    with pytest.raises(AttemptFailed) as told:
        read(tool, written)
    failure = told.value.failure
    assert failure.error_type == "invalid_arguments"
    for word in ("hunter2", "secret_name"):
        assert word not in failure.where
        assert word not in str(told.value)


def test_messages_stay_short():
    class Closed(BaseModel, extra="forbid"):
        a: int = 0

    def look(x: Closed) -> None: ...

    look.__annotations__["x"] = Closed
    name = "n" * 100_000
    assert len(refusal(tool_call(look), {"x": {name: 1, "a": "v" * 100_000}})) < 2_000
    assert len(refusal(text_tool, {name: 1, "x": "a"})) < 2_000


@pytest.mark.parametrize(
    ("given", "told"),
    [(ValueError("no such city"), "no such city"), (ValueError(), "ValueError")],
    ids=["message", "none"],
)
def test_prepare_may_refuse(given, told):
    def prepare(values):
        raise given

    assert told in refusal(tool_call(prepare_arguments=prepare)(takes_anything), {"x": 1})


def test_prepare_that_refuses_with_an_error_that_cannot_be_shown():
    class Odd(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    def prepare(values):
        raise Odd

    assert refusal(tool_call(prepare_arguments=prepare)(takes_anything), {"x": 1}) == "Odd"


@pytest.mark.parametrize("prepare", [lambda _: 1 / 0, lambda _: 5], ids=["raises", "no-mapping"])
def test_prepare_that_is_broken_is_no_fault_of_the_model(prepare):
    with pytest.raises(ToolCallFailed) as told:
        tool_call(prepare_arguments=prepare)(takes_anything)(1)
    assert told.value.error_type == "invalid_schema"


@pytest.mark.parametrize(
    "value",
    [b"\xff", object(), {1: 2}, math.nan, {"\ud800"}, "\ud800", print, [b"\xff"], {1, 2}],
    ids=stable,
)
def test_python_objects_reach_a_tool_that_takes_anything(value):
    tool = tool_call(lambda x: x, name="echo")
    assert tool(value) is value
    assert tool_call(lambda x: x, name="echo", arguments_schema=None)(x=value) is value


def test_what_can_be_read_once_is_left_to_the_tool():
    @tool_call
    def total(numbers: Any) -> int:
        return sum(numbers)

    assert total(n for n in (1, 2, 3)) == 6
    assert total(iter([1, 2, 3])) == 6


def test_python_objects_that_no_schema_can_judge_are_the_callers_fault():
    @tool_call(arguments_schema={"properties": {"x": {"type": "string"}}})
    def look(x: object) -> None: ...

    with pytest.raises(ToolCallFailed) as told:
        look({"\ud800": 1})
    assert told.value.error_type == "invalid_arguments"
    assert breaker_of(look).state == "closed"


# What a function may look like.


def test_defaults_are_left_to_the_function():
    marker = object()

    @tool_call
    def look(x: Any = marker, y: float = math.nan, z: Colour = Colour.RED) -> object:
        return x

    assert look() is marker
    assert read(look, {}) == {}
    schema = guard_of(look).arguments.definition()
    assert json.loads(json.dumps(schema, allow_nan=False))["properties"]["z"]["default"] == "red"
    assert "default" not in schema["properties"]["y"]


def test_a_field_as_default_is_described_filled_and_enforced():
    @tool_call
    def look(
        x: int = Field(5, ge=1, description="how many"), y: str = Field(description="what")
    ) -> object:
        return x, y

    assert look(y="a") == (5, "a")
    assert look(3, "a") == (3, "a")
    schema = guard_of(look).arguments.definition()
    assert schema["required"] == ["y"]
    assert schema["properties"]["x"] == {
        "default": 5,
        "description": "how many",
        "minimum": 1,
        "type": "integer",
    }
    assert "y" in refusal(look, {"x": 3})


def test_names_that_models_use_themselves():
    @tool_call
    def look(
        model_config: int, schema: str, context: dict, p0: int, _x: int = 0, copy: int = 1
    ) -> object:
        return model_config, schema, context, p0, _x, copy

    given = {"model_config": 1, "schema": "s", "context": {"a": 1}, "p0": 2, "_x": 3}
    assert read(look, given) == given
    assert look(1, "s", {"a": 1}, 2) == (1, "s", {"a": 1}, 2, 0, 1)
    assert "p0" in refusal(look, {**given, "p0": "x"})


def test_self_is_a_name_like_others_where_it_is_not_the_first():
    @tool_call
    def look(x: int, self: str, cls: int = 1) -> object:
        return x, self, cls

    assert read(look, {"x": 1, "self": "a"}) == {"x": 1, "self": "a"}
    assert look(1, self="a") == (1, "a", 1)


def test_positional_only_parameters_with_gaps():
    @tool_call
    def look(a: int = 1, b: int = 2, /, c: int = 3) -> object:
        return a, b, c

    assert look(b=5) == (1, 5, 3)
    assert look(7) == (7, 2, 3)
    assert look() == (1, 2, 3)
    assert look(a=0, b=9, c=8) == (0, 9, 8)


def test_any_named_argument():
    @tool_call
    def look(a: int, **rest: object) -> object:
        return a, rest

    assert look(1, p0=2, model_config=3, rest=4) == (1, {"p0": 2, "model_config": 3, "rest": 4})


def test_a_model_cannot_name_the_instance():
    class Shop:
        @tool_call
        def look(self, **rest: object) -> object:
            return rest

    with pytest.raises(AttemptFailed) as told:
        read(Shop.look, {"self": 1})
    assert told.value.failure.error_type == "invalid_arguments"


class Shop:
    name = "shop"

    @tool_call
    def method(self, x: int) -> object:
        return self.name, x

    @tool_call
    @classmethod
    def of_class(cls, x: int) -> object:
        return cls.name, x

    @classmethod
    @tool_call
    def of_class_too(cls, x: int) -> object:
        return cls.name, x

    @tool_call
    @staticmethod
    def static(x: int) -> object:
        return "shop", x

    def plain(self, x: int) -> object:
        return self.name, x

    def __call__(self, x: int) -> object:
        return self.name, x


@pytest.mark.parametrize(
    "tool",
    [
        Shop().method,
        Shop.of_class,
        Shop().of_class_too,
        Shop.static,
        tool_call(Shop().plain),
        tool_call(Shop()),
        tool_call(functools.partial(Shop.plain, Shop())),
    ],
    ids=[
        "method",
        "classmethod",
        "classmethod-outside",
        "staticmethod",
        "bound",
        "callable",
        "partial",
    ],
)
def test_kinds_of_callables(tool):
    assert tool(1) == ("shop", 1)
    assert tool(x=1) == ("shop", 1)
    with pytest.raises(ToolCallFailed) as told:
        tool("one")
    assert told.value.error_type == "invalid_arguments"
    assert guard_of(tool).arguments.definition()["required"] == ["x"]


def test_builtins():
    assert tool_call(len)(["a"]) == 1
    assert tool_call(abs)(-1) == 1
    assert tool_call(dict)(x=1) == {"x": 1}  # it has no signature that can be read


def with_context(x: int, around: ToolContext) -> object:
    return x, around.tool_name


def with_optional_context(x: int, around: ToolContext | None = None) -> object:
    return x, around.tool_name


def with_renamed_context(x: int, around: Surroundings) -> object:
    return x, around.tool_name


def with_module_context(x: int, *, around: toolmend.ToolContext) -> object:
    return x, around.tool_name


def with_positional_context(around: ToolContext, x: int, /) -> object:
    return x, around.tool_name


def with_old_optional_context(x: int, around: Optional[ToolContext] = None) -> object:
    return x, around.tool_name


def _with_real_annotation() -> Any:
    def look(x: int, around: Any = None) -> object:
        return x, around.tool_name

    look.__annotations__ = {"x": int, "around": Optional[ToolContext]}
    return look


@pytest.mark.parametrize(
    "function",
    [
        with_context,
        with_optional_context,
        with_renamed_context,
        with_module_context,
        with_positional_context,
        with_old_optional_context,
        _with_real_annotation(),
    ],
    ids=lambda function: function.__name__,
)
def test_the_context_is_hidden_from_the_model(function):
    tool = tool_call(function)
    assert list(guard_of(tool).arguments.definition()["properties"]) == ["x"]
    assert tool(1) == (1, function.__name__)
    assert "around" in refusal(tool, {"x": 1, "around": {}})


def test_a_context_inside_of_something_else_is_none():
    @tool_call
    def look(x: list[ToolContext]) -> None: ...

    assert guard_of(look).signature.context_parameter is None


def test_one_annotation_that_nobody_finds_spoils_no_other():
    def look(a: OnlyForTypeCheckers, b: int, around: ToolContext) -> object:
        return a, b

    tool = tool_call(look)
    assert guard_of(tool).arguments.definition()["properties"] == {
        "a": {},
        "b": {"type": "integer"},
    }
    assert "b" in refusal(tool, {"a": 1, "b": "x"})
    assert tool([1], 2) == ([1], 2)


def test_classes_of_a_function():
    class Local(BaseModel):
        a: int

    def look(x: Local) -> object:
        return x

    look.__annotations__["x"] = Local
    assert read(tool_call(look), {"x": {"a": 1}}) == {"x": Local(a=1)}


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((1, 2, 3), {}, "takes 2 positional arguments; got 3"),
        ((1,), {"x": 2}, "got several values for 'x'"),
        ((), {"n": 1, "z": 2}, "z"),
    ],
    ids=["too-many", "twice", "unknown"],
)
def test_calls_that_no_function_takes(args, kwargs, told):
    with pytest.raises(ToolCallFailed) as failed:
        number_tool(*args, **kwargs)
    assert failed.value.error_type == "invalid_arguments"
    assert told in failed.value.text_for_model
