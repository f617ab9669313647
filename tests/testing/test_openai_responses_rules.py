"""Each rule of OpenAI Responses: one history that breaks it, and a near miss that is legal."""

from __future__ import annotations

import pytest

from toolmend.testing import problems

USER = {"role": "user", "content": "hi"}
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "x", "annotations": []}],
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
REFERENCE = {"type": "item_reference", "id": "msg_9"}
DEEP = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
LONG = '{"a":' + "7" * 5000 + "}"

# family: its call and its output, without their ids
FAMILIES = {
    "function": (
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "output": "r"},
    ),
    "custom": (
        {"type": "custom_tool_call", "name": "f", "input": "free {text"},
        {"type": "custom_tool_call_output", "output": "r"},
    ),
    "local shell": (
        {"type": "local_shell_call", "id": "lsh_1", "action": {}, "status": "completed"},
        {"type": "local_shell_call_output", "output": "r"},
    ),
    "shell": (
        {"type": "shell_call", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "output": []},
    ),
    "patch": (
        {"type": "apply_patch_call", "operation": {}, "status": "completed"},
        {"type": "apply_patch_call_output", "status": "failed"},
    ),
    "computer": (
        {"type": "computer_call", "id": "cu_1", "action": {}, "status": "completed"},
        {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
    ),
}


def call(call_id="c1", family="function", **fields):
    return {**FAMILIES[family][0], "call_id": call_id, **fields}


def output(call_id="c1", family="function", **fields):
    key = "id" if family == "local shell" else "call_id"
    return {**FAMILIES[family][1], key: call_id, **fields}


# id, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    *[
        (
            f"each {family} call has an output",
            [USER, call(family=family), USER],
            [("dangling", 1, ("c1",))],
            [USER, call(family=family), output(family=family), USER],
        )
        for family in FAMILIES
    ],
    *[
        (
            f"each {family} output has a call",
            [USER, output(family=family), USER],
            [("orphan", 1, ("c1",))],
            [USER, call(family=family), USER, output(family=family)],
        )
        for family in FAMILIES
    ],
    *[
        (
            f"a {family} call wants the output of its own family",
            [USER, call(family=family), output(family=other)],
            [("wrong_result_type", 2, ("c1",))],
            [USER, call(family=family), output(family=family), call("c2"), output("c2")],
        )
        for family, other in zip(FAMILIES, [*list(FAMILIES)[1:], "function"], strict=True)
    ],
    (
        "an output stands behind its call",
        [USER, output(), call(), USER],
        [("orphan", 1, ("c1",)), ("dangling", 2, ("c1",))],
        [USER, call(), ITEM, SAID, USER, output()],
    ),
    (
        "every call of a batch",
        [call("a"), call("b"), call("c"), output("b"), USER],
        [("dangling", 0, ("a",)), ("dangling", 2, ("c",))],
        [call("a"), call("b"), call("c"), output("c"), output("a"), output("b")],
    ),
    (
        "a call at the end",
        [USER, call()],
        [("dangling", 1, ("c1",))],
        [USER, call(), output()],
    ),
    (
        "one output per call",
        [call(), output(), USER, output(output="")],
        [("duplicate_result", 3, ("c1",))],
        [call("c1"), call("c2"), output("c1", output=""), output("c2", output=[])],
    ),
    (
        "call_ids are distinct in the list",
        [call(), output(), USER, call(), output()],
        [("duplicate_id", 3, ("c1",))],
        [call("c1"), output("c1"), USER, call("C1"), output("C1")],
    ),
    (
        "call_ids are distinct over the families",
        [call(), output(), call(family="custom"), output(family="custom")],
        [("duplicate_id", 2, ("c1",))],
        [call(), output(), call("c2", "custom"), output("c2", "custom")],
    ),
    (
        "an output takes the newest open call of its id",
        [call(), USER, call(), output(), USER],
        [("dangling", 0, ("c1",)), ("duplicate_id", 2, ("c1",))],
        [call(), output(), USER],
    ),
    *[
        (
            f"id {bad_id!r} is missing",
            [call(bad_id), output(bad_id)],
            [("missing_id", 0, ()), ("missing_id", 1, ())],
            [call("x" * 70), output("x" * 70)],
        )
        for bad_id in ("", "  ", None, 7, ["a"])
    ],
    (
        "the output of a local shell names its call in `id`",
        [call(family="local shell"), {**output(family="local shell"), "id": None, "call_id": "c1"}],
        [("dangling", 0, ("c1",)), ("missing_id", 1, ())],
        [call(family="local shell"), output(family="local shell", status="completed")],
    ),
    *[
        (
            f"item id {item_id!r}",
            [call(id=item_id), output()],
            [("malformed_id", 0, ("c1",))],
            [call(id=fine), output(), call("c2", "custom", id="ctc_1"), output("c2", "custom")],
        )
        for item_id, fine in (("call_1", "fc_1"), ("", None), (7, "fc"))
    ],
    *[
        (
            f"a call named {name!r}",
            [call(name=name), output()],
            [("nameless_call", 0, ("c1",))],
            [call(name="0"), output()],
        )
        for name in ("", " ", None, 3)
    ],
    (
        "a custom call has a name too",
        [call(family="custom", name=""), output(family="custom")],
        [("nameless_call", 0, ("c1",))],
        [call(family="shell", name=""), output(family="shell")],
    ),
    *[
        (
            f"arguments {str(arguments)[:12]!r}",
            [call(arguments=arguments), output()],
            [("invalid_arguments", 0, ("c1",))],
            [call(arguments=fine), output()],
        )
        for arguments, fine in (
            ("", "{}"),
            ("{", '{"a": NaN}'),
            ("[]", DEEP),
            ("1", LONG),
            (None, " {} "),
            ({}, '{"a": {}}'),
        )
    ],
    *[
        (
            f"reasoning before {name}",
            [USER, REASONING, *behind],
            [("orphan_reasoning", 1, ())],
            [USER, REASONING, SAID, *behind],
        )
        for name, behind in (
            ("nothing", []),
            ("a user message", [USER]),
            ("a user item", [ITEM]),
            ("a developer message", [{"role": "developer", "content": "x"}]),
            ("an approval", [{"type": "mcp_approval_response", "approval_request_id": "a"}]),
        )
    ],
    (
        "reasoning does not lead to an output",
        [call(), REASONING, output()],
        [("orphan_reasoning", 1, ())],
        [REASONING, call("c1"), call("c2"), output("c2"), output("c1")],
    ),
    (
        "two reasoning items need what follows them",
        [USER, REASONING, REASONING, USER],
        [("orphan_reasoning", 1, ()), ("orphan_reasoning", 2, ())],
        [USER, REASONING, REASONING, SEARCH, REASONING, call(), output()],
    ),
    (
        "a screenshot is an object",
        [call(family="computer"), output(family="computer", output="text")],
        [("invalid_result", 1, ("c1",))],
        [call(family="computer"), output(family="computer", output={})],
    ),
    (
        "the output of a shell is a list",
        [call(family="shell"), output(family="shell", output="text")],
        [("invalid_result", 1, ("c1",))],
        [call(family="shell"), output(family="shell", output=[{"stdout": ""}])],
    ),
    (
        "the output of a patch has a status",
        [call(family="patch"), output(family="patch", status=None)],
        [("invalid_result", 1, ("c1",))],
        [call(family="patch"), output(family="patch", status="completed", output="x")],
    ),
]


@pytest.mark.parametrize(
    ("illegal", "expected", "legal"), [pytest.param(*row[1:], id=row[0]) for row in RULES]
)
def test_rule(illegal, expected, legal):
    found = problems(illegal, format="openai-responses")
    assert [(problem.kind, problem.index, problem.call_ids) for problem in found] == expected
    assert all(problem.message for problem in found)
    assert problems(legal, format="openai-responses") == []


LEGAL = [
    ("nothing", []),
    ("hosted items", [USER, SEARCH, {"type": "mcp_list_tools"}, {"type": "file_search_call"}]),
    ("an open approval", [USER, {"type": "mcp_approval_request", "id": "a", "name": ""}]),
    ("unknown items", [USER, {"type": "program", "call_id": "c"}, {"type": "compaction"}]),
    ("a type that is no text", [{"type": 7}]),
]


@pytest.mark.parametrize("history", [pytest.param(row[1], id=row[0]) for row in LEGAL])
def test_what_is_not_judged(history):
    assert problems(history, format="openai-responses") == []


TAILS = [
    ("two calls", [USER, call("a"), call("b")], True),
    ("one is answered", [USER, call("a"), call("b"), output("b")], True),
    ("reasoning between them", [USER, call("a"), REASONING, call("b"), output("b")], True),
    ("a user message behind", [USER, call("a"), USER], False),
    ("an answer behind", [USER, call("a"), SAID], False),
    ("an output of an earlier call behind", [call("b"), USER, call("a"), output("b")], False),
    ("an earlier run", [call("a"), USER, call("b")], False),
]


@pytest.mark.parametrize(
    ("history", "is_tail"), [pytest.param(*row[1:], id=row[0]) for row in TAILS]
)
def test_an_open_tail(history, is_tail):
    assert problems(history, format="openai-responses")
    found = problems(history, format="openai-responses", allow_open_tail=True)
    assert (found == []) is is_tail
    found = problems(history, format="openai-responses", allow_open=["a", "b"])
    assert (found == []) is is_tail
    assert problems(history, format="openai-responses", allow_open=["z"])


ON_SERVER = [output("s1"), output("s1"), call(), output(), call(), output(), USER]


def test_what_the_server_holds():
    kinds = [problem.kind for problem in problems(ON_SERVER, format="openai-responses")]
    assert kinds == ["orphan", "orphan", "duplicate_id"]
    assert problems(ON_SERVER, format="openai-responses", server_state=True) == []
    for reference in (REFERENCE, {"id": "msg_9"}, {"type": None, "id": "msg_9"}):
        assert problems([reference, *ON_SERVER], format="openai-responses") == []
    assert problems(ON_SERVER[:2], format="openai-responses", allow_orphans=True) == []


def test_the_server_holds_no_output_of_a_new_call():
    found = problems([REFERENCE, call(), USER], format="openai-responses", server_state=True)
    assert [problem.kind for problem in found] == ["dangling"]


def test_reasoning_may_lead_to_a_reference():
    assert problems([REASONING, REFERENCE], format="openai-responses") == []


def test_the_words_of_the_api():
    history = [call("a"), call("b", "custom"), output("z"), REASONING]
    messages = [problem.message for problem in problems(history, format="openai-responses")]
    assert messages == [
        "No tool output found for function call a.",
        "No tool output found for custom tool call b.",
        "No tool call found for function call output with call_id z.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ]
