"""Schemas of tools: judged right, never fetched, and never for longer than counted steps allow.

Whatever could run for ever runs in a process of its own, which is ended after a while.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from toolmend import ToolCallFailed, breaker_of, tool_call
from toolmend.execution import schema_bounds
from toolmend.execution.schema import Schema, SchemaError, ValueRefusedError
from toolmend.execution.schema_bounds import SchemaBounds, ValueTooCostlyError
from toolmend.execution.schema_references import ReferenceRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_6 = "http://json-schema.org/draft-06/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
ADDRESS = "https://tools.test/one"

_TIMEOUT = 100
_CODE = """
import faulthandler, json, resource, sys
faulthandler.enable()
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from toolmend.execution.schema import Schema, SchemaError, ValueRefusedError
def judge(schema, value):
    try:
        made = Schema(schema)
    except SchemaError:
        return "no schema"
    try:
        found = made.problems(value)
    except ValueRefusedError:
        return "too much"
    except SchemaError:
        return "cannot tell"
    return "; ".join(problem.told for problem in found) or "right"
for name, schema, value in json.load(sys.stdin):
    print(json.dumps([name, judge(schema, value)]), flush=True)
"""


def nested(depth: int, *, leaf: str = "{}") -> Any:
    return json.loads('{"c":' * depth + leaf + "}" * depth)


def chain(length: int, link: Any, end: object = True) -> dict[str, object]:
    """Return a schema of so many definitions, each made from the reference to the next one."""
    made = {f"a{n}": link({"$ref": f"#/$defs/a{n + 1}"}) for n in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**made, f"a{length}": end}}


def circle(reference: str, **marks: str) -> dict[str, object]:
    """Return definitions of which each asks the other about the same value."""
    return {
        "a": {
            **{key: f"{mark}a" for key, mark in marks.items()},
            "anyOf": [{"$ref": f"{reference}b"}],
        },
        "b": {
            **{key: f"{mark}b" for key, mark in marks.items()},
            "allOf": [{"$ref": f"{reference}a"}],
        },
    }


IN_A_CIRCLE = {
    "itself": {"$ref": "#"},
    "itself-by-an-empty-reference": {"allOf": [{"$ref": ""}]},
    "two": {"$ref": "#/$defs/a", "$defs": circle("#/$defs/")},
    "two-below-a-property": {
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": circle("#/$defs/"),
    },
    "percent-encoded": {"$ref": "#/%24defs/a", "$defs": circle("#/%24defs/")},
    "percent-encoded-slash": {"$ref": "#%2F$defs%2Fa", "$defs": circle("#%2F$defs%2F")},
    "escaped": {"$ref": "#/$defs/x~1a", "$defs": {"x/a": {"not": {"$ref": "#/$defs/x~1a"}}}},
    "through-a-list": {"allOf": [{"anyOf": [{"$ref": "#/allOf/0"}]}]},
    "through-an-unknown-keyword": {"$ref": "#/mine/a", "mine": circle("#/mine/")},
    "anchors": {"$ref": "#a", "$defs": circle("#", **{"$anchor": ""})},
    "anchors-below-a-property": {
        "properties": {"x": {"$ref": "#a"}},
        "$defs": circle("#", **{"$anchor": ""}),
    },
    "dynamic-anchors": {"$dynamicRef": "#a", "$defs": circle("#", **{"$dynamicAnchor": ""})},
    "dynamic-reference": {"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]},
    "recursive-reference": {"$schema": DRAFT_2019, "anyOf": [{"$recursiveRef": "#"}]},
    "own-address": {"$id": ADDRESS, "not": {"$ref": ADDRESS}},
    "own-address-relative": {"$id": ADDRESS, "not": {"$ref": "one#"}},
    "own-address-pointer": {
        "$id": ADDRESS,
        "$ref": f"{ADDRESS}#/$defs/a",
        "$defs": circle(f"{ADDRESS}#/$defs/"),
    },
    "draft-4-anchors": {
        "$schema": DRAFT_4,
        "allOf": [{"$ref": "#a"}],
        "definitions": circle("#", id="#"),
    },
    "draft-6-anchors": {
        "$schema": DRAFT_6,
        "allOf": [{"$ref": "#a"}],
        "definitions": circle("#", **{"$id": "#"}),
    },
    "dependencies": {"$schema": DRAFT_7, "dependencies": {"a": {"$ref": "#"}}},
    "dependent-schemas": {"dependentSchemas": {"a": {"$ref": "#"}}},
    "if": {"if": {"$ref": "#"}},
    "then": {"if": True, "then": {"$ref": "#"}},
    "else": {"if": False, "else": {"$ref": "#"}},
    "not": {"not": {"$ref": "#"}},
    "one-of": {"oneOf": [{"$ref": "#"}, True]},
}


@pytest.mark.parametrize("schema", IN_A_CIRCLE.values(), ids=IN_A_CIRCLE.keys())
def test_a_schema_that_asks_itself_about_the_same_value_is_refused(schema):
    with pytest.raises(SchemaError):
        Schema(schema)


ELSEWHERE = {
    "other-document": {"$ref": "https://other.test/s"},
    "relative": {"$ref": "other.json"},
    "relative-to-its-address": {"$id": ADDRESS, "$ref": "two"},
    "file": {"$ref": "file:///etc/passwd"},
    "urn": {"$ref": "urn:uuid:deadbeef-dead-beef-dead-beefdeadbeef"},
    "the-drafts-own-schema": {"$ref": DRAFT_2020},
    "the-drafts-own-schema-thrice": {
        "$id": ADDRESS,
        "$dynamicAnchor": "meta",
        "allOf": [{"$ref": DRAFT_2020}] * 3,
    },
    "nowhere": {"$ref": "#/$defs/nothing"},
    "no-anchor": {"$ref": "#nothing"},
    "past-the-list": {"$ref": "#/allOf/7", "allOf": [True]},
    "not-a-list": {"$ref": "#/allOf/-", "allOf": [True]},
    "document-inside": {
        "$ref": "#/$defs/r",
        "$defs": {
            "r": {
                "$id": "https://tools.test/r",
                "$ref": "#/$defs/a",
                "$defs": circle("#/$defs/"),
            },
            "a": True,
        },
    },
    "document-inside-draft-4": {
        "$schema": DRAFT_4,
        "allOf": [{"$ref": "#/definitions/r"}],
        "definitions": {
            "r": {
                "id": "https://tools.test/r",
                "allOf": [{"$ref": "#/definitions/a"}],
                "definitions": circle("#/definitions/"),
            },
            "a": {},
        },
    },
    "unknown-draft": {"$schema": "https://drafts.test/mine"},
    "no-text": {"$ref": 5},
    "bad-pattern": {"pattern": "("},
    "absurd-pattern": {"pattern": "(a{1000}){1000}"},
    "type-that-there-is-not": {"type": "text"},
    "endless-digits": {"$ref": "#/allOf/" + "9" * 5000, "allOf": [True]},
}


@pytest.mark.parametrize("schema", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_schema_that_cannot_be_followed_is_refused(schema):
    with pytest.raises(SchemaError):
        Schema(
            {"properties": {"x": schema}}
            if "$schema" not in schema and "$id" not in schema
            else schema
        )


@pytest.mark.parametrize(
    "reference", ["other", "#/$defs/nothing", "#nothing", "#/allOf/7", "#/a%2Fb", "#%2Fallof"]
)
def test_bounds_refuse_a_reference_that_they_cannot_follow(reference):
    """Also where a validator would follow it, or none would: what nobody counts is not used."""
    with pytest.raises(ReferenceRefusedError):
        SchemaBounds({"allOf": [True], "a/b": {}, "a": {"b": {}}, "$ref": reference})


@contextmanager
def counting_server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


def _outcome(tool: Any) -> str:
    try:
        return tool(x=1)
    except ToolCallFailed as failed:
        return failed.error_type


@pytest.mark.parametrize(
    "make",
    [
        lambda url: {"$ref": f"{url}/ref"},
        lambda url: {"$dynamicRef": f"{url}/dynamic#x"},
        lambda url: {"$schema": DRAFT_2019, "$recursiveRef": f"{url}/recursive"},
        lambda url: {"$schema": f"{url}/draft"},
        lambda url: {"$id": f"{url}/base/", "$ref": "relative"},
        lambda url: {"$schema": DRAFT_4, "id": f"{url}/base/", "allOf": [{"$ref": "relative"}]},
        lambda url: {"properties": {"x": {"$id": f"{url}/inner/", "$ref": "relative"}}},
        lambda url: {
            "properties": {"x": {"$schema": f"{url}/draft", "$id": "urn:x", "type": "integer"}}
        },
        lambda url: {"$id": f"{url}/own"},
    ],
    ids=[
        *("ref", "dynamic-ref", "recursive-ref", "schema", "relative", "draft-4", "inner"),
        *("inner-schema", "own-address"),
    ],
)
def test_nothing_is_fetched(make):
    with counting_server() as (url, asked):

        @tool_call(arguments_schema=make(url))
        def look(**arguments: object) -> str:
            return "ok"

        for _ in range(2):
            assert _outcome(look) in ("ok", "invalid_schema")
        assert asked == []


def test_the_server_would_have_noticed():
    with counting_server() as (url, asked):
        httpx.get(f"{url}/seen")
        assert asked == ["/seen"]


def test_a_broken_schema_opens_the_breaker_and_its_values_stay_inside():
    @tool_call(arguments_schema={"$ref": "https://other.test/s", "default": "hunter2"})
    def look(**arguments: object) -> None:
        raise AssertionError

    with pytest.raises(ToolCallFailed) as told:
        look(x=1)
    assert (told.value.error_type, breaker_of(look).reason) == ("invalid_schema", "invalid_schema")
    assert told.value.text_for_model == "look is misconfigured and cannot be used. Use another way."
    assert "hunter2" not in str(told.value.__cause__)


TREE = {
    "$defs": {
        "n": {"properties": {"c": {"items": {"$ref": "#/$defs/n"}}, "v": {"type": "integer"}}}
    }
}

FINE = {
    "anchor": (
        {"properties": {"x": {"$ref": "#n"}}, "$defs": {"n": {"$anchor": "n", "type": "integer"}}},
        {"x": 1},
        {"x": ""},
    ),
    "own-address": (
        {
            "$id": ADDRESS,
            "properties": {"x": {"$ref": f"{ADDRESS}#/$defs/n"}},
            "$defs": {"n": {"type": "integer"}},
        },
        {"x": 1},
        {"x": ""},
    ),
    "percent-encoded-name": (
        {"properties": {"x": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"type": "integer"}}},
        {"x": 1},
        {"x": ""},
    ),
    "tree": (
        {**TREE, "$ref": "#/$defs/n"},
        {"c": [{"c": [{"v": 1}]}]},
        {"c": [{"c": [{"v": ""}]}]},
    ),
    "dynamic-tree": (
        {
            "$dynamicAnchor": "n",
            "properties": {"c": {"$dynamicRef": "#n"}, "v": {"type": "integer"}},
        },
        {"c": {"v": 1}},
        {"c": {"v": ""}},
    ),
    "recursive-tree": (
        {
            "$schema": DRAFT_2019,
            "properties": {"c": {"$recursiveRef": "#"}, "v": {"type": "integer"}},
        },
        {"c": {"v": 1}},
        {"c": {"v": ""}},
    ),
    "properties-named-like-keywords": (
        {
            "properties": {
                "$ref": {"type": "integer"},
                "$id": {"type": "string"},
                "x": {"$ref": "#/properties/$ref"},
            }
        },
        {"$ref": 1, "x": 1},
        {"x": ""},
    ),
    "look-around": (
        {"properties": {"x": {"pattern": "^(?=a)(?!ab).+$"}}},
        {"x": "ac"},
        {"x": "ab"},
    ),
    "format": (
        {"properties": {"x": {"format": "date-time"}}},
        {"x": "2024-01-01T00:00:00Z"},
        {"x": "soon"},
    ),
    "huge-number": ({"properties": {"x": {"maximum": 5}}}, {"x": 5}, {"x": 10**400}),
    "unevaluated": (
        {"allOf": [{"properties": {"x": True}}], "unevaluatedProperties": False},
        {"x": 1},
        {"y": 1},
    ),
    "deep-choices": (
        chain(50, lambda ref: {"anyOf": [{"properties": {"c": ref}}]}, {"type": "object"}),
        nested(50),
        nested(50, leaf="5"),
    ),
    "true": (True, {"x": 1}, None),
}


@pytest.mark.parametrize(("schema", "right", "wrong"), FINE.values(), ids=FINE.keys())
def test_a_schema_within_bounds_judges(schema, right, wrong):
    made = Schema(schema if isinstance(schema, dict) else {"allOf": [schema]})
    assert made.problems(right) == []
    if wrong is not None:
        assert made.problems(wrong) != []


def doubling(choice: str) -> dict[str, object]:
    again = {"properties": {"c": {"$ref": "#/$defs/n"}}}
    branches = [{**again, "required": ["y"]}, {**again, "required": ["z"]}]
    return {"$ref": "#/$defs/n", "$defs": {"n": {choice: branches}}}


LAUGHS = chain(12, lambda ref: {"allOf": [ref] * 10})
MARKING = chain(
    22, lambda ref: {"anyOf": [{"properties": {"c": ref}}], "unevaluatedProperties": False}
)
MARKING_TWICE = chain(
    12,
    lambda ref: {
        "anyOf": [{"anyOf": [{"properties": {"c": ref}}], "unevaluatedProperties": False}],
        "unevaluatedProperties": False,
    },
)
MANY_FOR_EACH = chain(14, lambda ref: {"allOf": [ref, ref]}, {"type": "integer"})
HARD_PATTERN = r"^(?=a)(a|a)*\1$"
MANY_FOR_EACH_ITEM = {"items": {"$ref": "#/$defs/a0"}, "$defs": MANY_FOR_EACH["$defs"]}


COUNTED = {
    "a-billion-references": (LAUGHS, {}, "no schema"),
    "asks-twice-at-each-level": (MARKING, nested(22), "no schema"),
    "asks-five-times-at-each-level": (MARKING_TWICE, nested(12), "no schema"),
    "endless-way": (chain(2_000, lambda ref: {"allOf": [ref]}), {}, "no schema"),
    "endless-references": (chain(6_000, lambda ref: ref), {}, "no schema"),
    "long-way": (chain(200, lambda ref: ref), {}, "right"),
    "too-large": ({"enum": list(range(30_000))}, {}, "no schema"),
    "too-deep": (nested(100), {}, "no schema"),
    "doubling-any-of": (doubling("anyOf"), nested(20), "too much"),
    "doubling-one-of": (doubling("oneOf"), nested(20), "too much"),
    "doubling-all-of": (doubling("allOf"), nested(20), "too much"),
    "doubling-a-little": (doubling("anyOf"), nested(14), "They are not as"),
    "doubling-hardly": (doubling("anyOf"), nested(5), "arguments: "),
    "many-steps-for-each-item": (MANY_FOR_EACH_ITEM, list(range(80_000)), "too much"),
    "many-steps-for-a-few-items": (MANY_FOR_EACH_ITEM, list(range(20)), "right"),
    "many-copies-of-a-value": (MANY_FOR_EACH, ["x" * 20] * 5_000, "arguments: "),
    "long-list": ({"items": {"type": "integer"}}, [*range(200_000), ""], '200000: ""'),
    "errors-of-a-choice-pile-up": (
        {"anyOf": [{"items": {"type": "integer"}}, {"type": "null"}]},
        [""] * 100_000,
        "They are not as",
    ),
    "errors-of-a-choice": (
        {"anyOf": [{"items": {"type": "integer"}}, {"type": "null"}]},
        [""] * 1_000,
        "arguments: ",
    ),
    "pattern": ({"pattern": "^(a+)+$"}, "a" * 200_000 + "!", "arguments: "),
    "names": ({"patternProperties": {"^(a+)+$": True}}, {"a" * 200_000: 1}, "right"),
    "look-around-pattern": ({"pattern": HARD_PATTERN}, "a" * 40 + "!", "arguments: "),
    "look-around-pattern-for-each-item": (
        {"items": {"not": {"pattern": HARD_PATTERN}}},
        ["a" * 12 + "!"] * 20_000,
        "too much",
    ),
    "unique": ({"uniqueItems": True}, [[n] for n in range(50_000)], "right"),
    "long-enum-for-each-item": (
        {"items": {"enum": [f"v{n}" for n in range(15_000)]}},
        ["v0"] * 60_000,
        "too much",
    ),
    "many-schemas-for-many-items": ({"prefixItems": [{}] * 15_000}, [0] * 100_000, "too much"),
    "contains-itself": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"contains": {"$ref": "#/$defs/n"}}}},
        json.loads("[" * 60 + "]" * 60),
        "arguments: ",
    ),
}


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """Judge all of them in one process, which has a stack and a time of its own."""
    cases = [[name, schema, value] for name, (schema, value, _) in COUNTED.items()]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _CODE], stdin=subprocess.PIPE, stdout=output, text=True
        )
        try:
            process.communicate(json.dumps(cases), timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.seek(0)
        return dict(json.loads(line) for line in output)


@pytest.mark.parametrize("name", COUNTED)
def test_ends_within_counted_steps(said, name):
    assert name in said, "it never ended, or the process did, or the same is true of one before"
    assert said[name].startswith(COUNTED[name][2])


def test_a_value_that_is_too_much_is_no_fault_of_the_tool():
    @tool_call(arguments_schema=doubling("anyOf"))
    def look(**arguments: object) -> None:
        raise AssertionError

    with pytest.raises(ToolCallFailed) as told:
        look(**nested(20))
    assert told.value.error_type == "invalid_arguments"
    assert "too much to be checked" in told.value.text_for_model
    assert breaker_of(look).state == "closed"


@pytest.mark.parametrize("depth", range(1, 13))
def test_steps_are_counted_as_they_come(depth):
    """The doubling schema takes 4 steps at the bottom, and twice those of the next level and 2 above it."""
    bounds = SchemaBounds(doubling("allOf"))
    expected = 4
    for _ in range(depth):
        expected = 2 * (expected + 1) + 2
    cost = schema_bounds._cost(bounds._root, nested(depth), 10**9)
    assert cost.judge <= 2 * expected
    assert cost.judge >= 2**depth


@pytest.mark.parametrize(
    ("link", "factor"),
    [
        (lambda ref: {"allOf": [{"properties": {"c": ref}}]}, 1),
        (lambda ref: {"anyOf": [{"properties": {"c": ref}}], "unevaluatedProperties": False}, 2),
        (
            lambda ref: {
                "anyOf": [{"anyOf": [{"properties": {"c": ref}}]}],
                "unevaluatedProperties": False,
            },
            3,
        ),
        (
            lambda ref: {
                "anyOf": [{"anyOf": [{"properties": {"c": ref}}], "unevaluatedProperties": False}],
                "unevaluatedProperties": False,
            },
            5,
        ),
    ],
    ids=["never", "once", "nested", "twice"],
)
def test_what_is_asked_again_counts_again(link, factor):
    """As measured of the validator: so much more at each level."""
    judge = [SchemaBounds(chain(length, link))._once.judge for length in (4, 5, 6)]
    assert (judge[2] - judge[1]) == factor * (judge[1] - judge[0])


def test_a_value_that_contains_itself_is_too_much():
    value: list[object] = []
    value.append(value)
    bounds = SchemaBounds({"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}})
    told = []

    def check() -> None:
        try:
            bounds.check(value)
        except ValueTooCostlyError as error:
            told.append(error)

    thread = threading.Thread(target=check, daemon=True)
    thread.start()
    thread.join(20)
    assert len(told) == 1


def test_the_count_itself_is_bounded():
    wide = SchemaBounds(
        {"$ref": "#/$defs/n", "$defs": {"n": {"items": {"anyOf": [{"$ref": "#/$defs/n"}] * 900}}}}
    )
    with pytest.raises(ValueTooCostlyError):
        wide.check([[0] * 1000 for _ in range(1000)])


def test_problems_say_where_what_and_which_values_there_are():
    made = Schema({"properties": {"a": {"items": {"enum": ["x", "y"]}}, "b": {"type": "integer"}}})
    first, second = made.problems({"a": ["x", "hunter2"], "b": "hunter2"})
    assert first.told.startswith("a.1: ")
    assert "(allowed: ['x', 'y'])" in first.told
    assert first.told.endswith("[enum].")
    assert second.told.startswith("b: ")
    assert (first.rule, second.rule) == ("properties/a/items/enum", "properties/b/type")


def test_a_wrong_value_is_wrong_also_where_words_fail():
    [problem] = Schema({"type": "object"}).problems(["\ud800"])
    assert problem.told == "They are not as the schema of the tool wants them."


def test_problems_are_a_handful_of_short_ones():
    made = Schema({"additionalProperties": {"type": "integer"}})
    found = made.problems({f"{n:0300}": "v" * 5000 for n in range(50)})
    assert len(found) == 5
    assert all(len(problem.told) < 700 for problem in found)


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False},
        {"additionalProperties": {"type": "integer"}},
        {"patternProperties": {"^s": {"type": "integer"}}},
        {"propertyNames": {"maxLength": 2}},
        {"unevaluatedProperties": False},
        {"properties": {"x": {"const": "public"}}, "required": ["x"]},
        {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
        {"dependentRequired": {"secret_key": ["x"]}},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_rules_for_telemetry_say_nothing_of_the_value(schema):
    # A name that the schema itself has is the schema's.
    name = "secret_key"
    for problem in Schema(schema).problems({name: "hunter2"}):
        assert "hunter2" not in problem.rule
        assert name not in problem.rule or name in json.dumps(schema)
        assert problem.rule
    assert Schema(schema).problems({name: "hunter2"})


def test_refused_values_are_told_from_refused_schemas():
    assert issubclass(ValueRefusedError, SchemaError)
    with pytest.raises(ValueRefusedError):
        Schema(doubling("anyOf")).problems(nested(30))
    with pytest.raises(SchemaError) as told:
        Schema({"type": "object", "properties": {"x": {"type": "string"}}}).problems(
            {"x": object()}
        )
    assert not isinstance(told.value, ValueRefusedError)
