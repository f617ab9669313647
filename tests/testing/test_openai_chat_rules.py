"""Each rule of OpenAI Chat: one history that breaks it, and a near miss that is legal."""

from __future__ import annotations

import pytest

from toolmend.testing import problems

USER = {"role": "user", "content": "hi"}
DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"


def call(call_id="c1", name="f", arguments="{}"):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def custom(call_id="c1", name="f", text="free {text"):
    return {"id": call_id, "type": "custom", "custom": {"name": name, "input": text}}


def calls(*entries, **fields):
    return {"role": "assistant", "content": None, "tool_calls": list(entries), **fields}


def result(call_id="c1", content="r"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def assistant(**fields):
    return {"role": "assistant", **fields}


# id, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    (
        "each call is answered",
        [USER, calls(call()), USER],
        [("dangling", 1, ("c1",))],
        [USER, calls(call()), result(), USER],
    ),
    (
        "a call at the end is answered too",
        [USER, calls(call())],
        [("dangling", 1, ("c1",))],
        [USER, calls(call()), result()],
    ),
    (
        "every call of a batch",
        [calls(call("a"), call("b"), call("c")), result("b"), USER],
        [("dangling", 0, ("a", "c"))],
        [calls(call("a"), call("b"), call("c")), result("c"), result("a"), result("b")],
    ),
    (
        "a user message breaks the run",
        [calls(call("a"), call("b")), result("a"), USER, result("b")],
        [("dangling", 0, ("b",)), ("orphan", 3, ("b",))],
        [calls(call("a"), call("b")), result("a"), result("b"), USER],
    ),
    (
        "a system message breaks the run",
        [calls(call()), {"role": "system", "content": "s"}, result()],
        [("dangling", 0, ("c1",)), ("orphan", 2, ("c1",))],
        [calls(call()), result(), {"role": "system", "content": "s"}],
    ),
    (
        "an unknown role breaks the run",
        [calls(call()), {"role": "reviewer", "content": "s"}, result()],
        [("dangling", 0, ("c1",)), ("orphan", 2, ("c1",))],
        [{"role": "reviewer", "content": "s"}, calls(call()), result()],
    ),
    (
        "a legacy function message breaks the run",
        [calls(call()), {"role": "function", "name": "g", "content": "x"}, result()],
        [("dangling", 0, ("c1",)), ("orphan", 2, ("c1",))],
        [
            assistant(content=None, function_call={"name": "g", "arguments": "{"}),
            {"role": "function", "name": "g", "content": "x"},
            assistant(content=None, function_call={"name": "g", "arguments": "{}"}),
            USER,
        ],
    ),
    (
        "a result has its call before the run",
        [USER, result(), USER],
        [("orphan", 1, ("c1",))],
        [USER, calls(call()), result(), USER],
    ),
    (
        "a result answers a call of this very message",
        [calls(call("a")), result("a"), calls(call("b")), result("b"), result("a")],
        [("orphan", 4, ("a",))],
        [calls(call("a")), result("a"), calls(call("b")), result("b")],
    ),
    (
        "a result does not stand before its call",
        [result(), calls(call()), USER],
        [("orphan", 0, ("c1",)), ("dangling", 1, ("c1",))],
        [calls(call()), result(), USER],
    ),
    (
        "an assistant message without calls takes no result",
        [assistant(content="x"), result()],
        [("orphan", 1, ("c1",))],
        [calls(call(), content="x"), result()],
    ),
    (
        "one result per call",
        [calls(call()), result(), result(content="again")],
        [("duplicate_result", 2, ("c1",))],
        [calls(call("c1"), call("c2")), result("c1"), result("c2")],
    ),
    (
        "ids are distinct within one message",
        [calls(call("c1"), call("c1")), result(), result()],
        [("duplicate_id", 0, ("c1",))],
        [calls(call("c1")), result(), calls(call("c1")), result()],
    ),
    (
        "two calls of one id want two results",
        [calls(call("c1"), call("c1")), result()],
        [("duplicate_id", 0, ("c1",)), ("dangling", 0, ("c1",))],
        [calls(call("c1"), call("C1")), result("c1"), result("C1")],
    ),
    *[
        (
            f"id {bad_id!r} is missing",
            [calls(call(bad_id)), result(bad_id)],
            [("missing_id", 0, ()), ("missing_id", 1, ())],
            [calls(call("x" * 60)), result("x" * 60)],
        )
        for bad_id in ("", "  ", None, 7, ["a"])
    ],
    (
        "a call has an id key",
        [calls({"type": "function", "function": {"name": "f", "arguments": "{}"}})],
        [("missing_id", 0, ())],
        [calls({"id": "a", "function": {"name": "f", "arguments": "{}"}}), result("a")],
    ),
    *[
        (
            f"name {bad_name!r} is missing",
            [calls(call(name=bad_name)), result()],
            [("nameless_call", 0, ("c1",))],
            [calls(call(name="f.g h")), result()],
        )
        for bad_name in ("", " ", None, 3)
    ],
    *[
        (
            f"arguments {bad!r} are no JSON object",
            [calls(call(arguments=bad)), result()],
            [("invalid_arguments", 0, ("c1",))],
            [calls(call(arguments=good)), result()],
        )
        for bad, good in [
            ("", "{}"),
            ('{"a": "b', '{"a": "b"}'),
            ("[1]", '{"a": [1]}'),
            ('"x"', ' {"x": 1} \n'),
            ("null", '{"x": null}'),
            (None, '{"x": NaN, "y": -Infinity}'),
            ({}, '{"n": ' + "7" * 5000 + "}"),
            ("{} {}", '{"n": 1.5e999}'),
        ]
    ],
    (
        "arguments too deep to scan are fine",
        [calls(call(arguments="{'a': 1}")), result()],
        [("invalid_arguments", 0, ("c1",))],
        [calls(call(arguments=DEEP)), result()],
    ),
    (
        "custom calls are answered like others",
        [calls(custom()), USER],
        [("dangling", 0, ("c1",))],
        [calls(custom()), result(), USER],
    ),
    (
        "custom calls have a name",
        [calls(custom(name="")), result()],
        [("nameless_call", 0, ("c1",))],
        [calls(custom(text="")), result()],
    ),
    *[
        (
            f"no content: {fields}",
            [USER, assistant(**fields), USER],
            [("empty_content", 1, ())],
            [USER, assistant(**near_miss), USER],
        )
        for fields, near_miss in [
            ({}, {"content": ""}),
            ({"content": None}, {"content": " "}),
            ({"content": []}, {"content": [{"type": "text", "text": "x"}]}),
            ({"content": None, "refusal": ""}, {"content": None, "refusal": "no"}),
            ({"content": None, "audio": None}, {"content": None, "audio": {"id": "a"}}),
            (
                {"content": None, "function_call": None},
                {"function_call": {"name": "f", "arguments": "{}"}},
            ),
            ({"content": None, "tool_calls": None}, {"content": "", "tool_calls": None}),
        ]
    ],
    (
        "tool_calls is not empty",
        [assistant(content="text", tool_calls=[])],
        [("empty_tool_calls", 0, ())],
        [assistant(content="text")],
    ),
    (
        "empty tool_calls are no content",
        [assistant(content=None, tool_calls=[])],
        [("empty_tool_calls", 0, ()), ("empty_content", 0, ())],
        [assistant(content="", tool_calls=None)],
    ),
    (
        "tool_calls is a list",
        [assistant(content="x", tool_calls="abc")],
        [("invalid_shape", 0, ())],
        [assistant(content="x", tool_calls=(call(),)), result()],
    ),
    (
        "a call is an object",
        [calls("abc")],
        [("invalid_shape", 0, ()), ("missing_id", 0, ())],
        [calls(call()), result(content=None)],
    ),
]


def shapes(found):
    return [(problem.kind, problem.index, problem.call_ids) for problem in found]


@pytest.mark.parametrize(
    ("illegal", "expected"), [pytest.param(rule[1], rule[2], id=rule[0]) for rule in RULES]
)
def test_refuses(illegal, expected):
    assert shapes(problems(illegal, format="openai-chat")) == expected


@pytest.mark.parametrize("legal", [pytest.param(rule[3], id=rule[0]) for rule in RULES])
def test_accepts_the_near_miss(legal):
    assert problems(legal, format="openai-chat") == []


def test_an_empty_history_has_no_problems():
    assert problems([], format="openai-chat") == []


def test_the_words_of_the_provider():
    found = problems([USER, result("z"), calls(call("a"), call("b"))], format="openai-chat")
    assert [(problem.message, problem.param) for problem in found] == [
        (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            "messages.[1].role",
        ),
        (
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "a, b",
            "messages.[2].role",
        ),
    ]


TAIL = [USER, calls(call("a"), call("b")), result("a")]
OPTIONS = [
    ("tail open", TAIL, {"allow_open_tail": True}, True),
    ("tail closed by a user message", [*TAIL, USER], {"allow_open_tail": True}, False),
    ("tail with a second result", [*TAIL, result("a")], {"allow_open_tail": True}, False),
    ("tail with a stray result", [*TAIL, result("z")], {"allow_open_tail": True}, False),
    (
        "stray results are none of its own, allowed or not",
        [*TAIL, result("z")],
        {"allow_open_tail": True, "allow_orphans": True},
        False,
    ),
    ("earlier batch open", [calls(call()), *TAIL], {"allow_open_tail": True}, False),
    ("this id open", TAIL, {"allow_open": {"b"}}, True),
    ("another id open", TAIL, {"allow_open": {"a"}}, False),
    ("this id, but not at the end", [*TAIL, USER], {"allow_open": {"b"}}, False),
    ("orphan allowed", [USER, result(), USER], {"allow_orphans": True}, True),
    (
        "orphan allowed inside a run",
        [calls(call()), result("z"), result(), USER],
        {"allow_orphans": True},
        True,
    ),
    ("result without id", [USER, result(""), USER], {"allow_orphans": True}, False),
    ("second result", [calls(call()), result(), result()], {"allow_orphans": True}, False),
]


@pytest.mark.parametrize(
    ("history", "options", "is_legal"), [pytest.param(*row[1:], id=row[0]) for row in OPTIONS]
)
def test_options(history, options, is_legal):
    assert (problems(history, format="openai-chat", **options) == []) is is_legal
