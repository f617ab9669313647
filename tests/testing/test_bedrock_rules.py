"""Each rule of Bedrock Converse: one history that breaks it, and a near miss that is legal."""

from __future__ import annotations

import pytest

from toolmend.testing import problems

USER = {"role": "user", "content": [{"text": "hi"}]}
SAID = {"role": "assistant", "content": [{"text": "x"}]}
TEXT = {"text": "and"}
POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "S"}}}
STRANGER = {"role": "reviewer", "content": []}


def use(call_id="t1", name="f", **fields):
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": {}, **fields}}


def result(call_id="t1", **fields):
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": "r"}], **fields}}


def calls(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


# id, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    (
        "each call is answered",
        [USER, calls(use()), USER],
        [("dangling", 1, ("t1",))],
        [USER, calls(use()), user(result(), TEXT), SAID],
    ),
    (
        "a call at the end is answered too",
        [USER, calls(use())],
        [("dangling", 1, ("t1",))],
        [USER, calls(THOUGHT, use()), user(result())],
    ),
    (
        "every call of a turn",
        [USER, calls(use("a"), use("b"), use("c")), user(result("b"))],
        [("dangling", 1, ("a", "c"))],
        [USER, calls(use("a"), use("b")), user(result("b"), TEXT, result("a"))],
    ),
    (
        "text may stand before results",
        [USER, calls(use("a"), use("b")), user(TEXT, result("a"))],
        [("dangling", 1, ("b",))],
        [USER, calls(use("a"), use("b")), user(TEXT, result("a"), result("b"))],
    ),
    (
        "the next message answers",
        [USER, calls(use()), USER, SAID, user(result())],
        [("dangling", 1, ("t1",)), ("orphan", 4, ("t1",))],
        [USER, calls(use()), user(result()), SAID, USER],
    ),
    (
        "an assistant message does not answer",
        [USER, calls(use()), SAID, user(result())],
        [("dangling", 1, ("t1",)), ("role_order", 2, ()), ("orphan", 3, ("t1",))],
        [USER, calls(use()), user(result()), SAID],
    ),
    (
        "an unknown role stands between",
        [USER, calls(use()), STRANGER, user(result())],
        [("dangling", 1, ("t1",)), ("orphan", 3, ("t1",))],
        [USER, STRANGER, calls(use()), user(result())],
    ),
    (
        "no more results than calls",
        [USER, calls(use()), user(result(), result("z"))],
        [("orphan", 2, ("z",))],
        [USER, calls(use(), use("z")), user(result(), result("z"))],
    ),
    (
        "a result has a call",
        [user(result(), TEXT), SAID, USER],
        [("orphan", 0, ("t1",))],
        [user(TEXT), SAID, USER],
    ),
    (
        "a result behind an answer without calls",
        [USER, SAID, user(result())],
        [("orphan", 2, ("t1",))],
        [USER, calls(use()), user(result())],
    ),
    (
        "one result per call",
        [USER, calls(use()), user(result(), result())],
        [("duplicate_result", 2, ("t1",))],
        [USER, calls(use("t1"), use("t2")), user(result("t1"), result("t2"))],
    ),
    (
        "ids are distinct in a turn",
        [USER, calls(use(), use()), user(result(), result())],
        [("duplicate_id", 1, ("t1",))],
        [USER, calls(use()), user(result()), calls(use()), user(result())],
    ),
    *[
        (
            f"id {bad_id!r} is missing",
            [USER, calls(use(bad_id)), user(result(bad_id))],
            [("missing_id", 1, ()), ("missing_id", 2, ())],
            [USER, calls(use("0")), user(result("0"))],
        )
        for bad_id in ("", " ", None, 7, ["a"])
    ],
    *[
        (
            f"id {bad_id[:9]!r}",
            [USER, calls(use(bad_id)), user(result(bad_id))],
            [("malformed_id", 1, (bad_id,))],
            [USER, calls(use("Az09_-" + "x" * 58)), user(result("Az09_-" + "x" * 58))],
        )
        for bad_id in ("a b", "a\n", "ä", "x" * 65)
    ],
    *[
        (
            f"a call named {name!r}",
            [USER, calls(use(name=name)), user(result())],
            [("nameless_call", 1, ("t1",))],
            [USER, calls(use(name="Az09_-")), user(result())],
        )
        for name in ("", " ", None, 3)
    ],
    *[
        (
            f"a call named {name[:9]!r}",
            [USER, calls(use(name=name)), user(result())],
            [("malformed_name", 1, ("t1",))],
            [USER, calls(use(name="x" * 64)), user(result())],
        )
        for name in ("a.b", "a b", "x" * 65)
    ],
    *[
        (
            f"input {value!r}",
            [USER, calls(use(input=value)), user(result())],
            [("invalid_arguments", 1, ("t1",))],
            [USER, calls(use(input={"n": 10**5000})), user(result())],
        )
        for value in ("{}", [], None, 3)
    ],
    *[
        (
            f"result content {value!r}",
            [USER, calls(use()), user(result(content=value))],
            [("invalid_result", 2, ("t1",))],
            [USER, calls(use()), user(result(content=[], status="error"))],
        )
        for value in ("r", {}, None)
    ],
    (
        "roles alternate",
        [USER, USER, SAID, SAID],
        [("role_order", 1, ()), ("role_order", 3, ())],
        [USER, SAID, USER, SAID],
    ),
    (
        "results in two messages",
        [USER, calls(use("a"), use("b")), user(result("a")), user(result("b"))],
        [("dangling", 1, ("b",)), ("role_order", 3, ()), ("orphan", 3, ("b",))],
        [USER, calls(use("a"), use("b")), user(result("a"), result("b"))],
    ),
    (
        "the user opens",
        [SAID, USER],
        [("bad_first_turn", 0, ())],
        [USER, SAID],
    ),
    *[
        (
            f"content {content!r} is empty",
            [{"role": "user", "content": content}, SAID],
            [("empty_content", 0, ())],
            [user(TEXT), SAID],
        )
        for content in ([], None)
    ],
    *[
        (
            f"text {text!r} is blank",
            [USER, calls({"text": text}, TEXT)],
            [("blank_text", 1, ())],
            [USER, calls({"text": "0"}, {"cachePoint": {"type": "default"}})],
        )
        for text in ("", " \n", 3)
    ],
    (
        "content is a list",
        [{"role": "user", "content": "hi"}, calls("x", {"toolUse": "x"}), user({"toolResult": 1})],
        [
            ("invalid_shape", 0, ()),
            ("invalid_shape", 1, ()),
            ("invalid_shape", 1, ()),
            ("invalid_shape", 2, ()),
        ],
        [USER, SAID, USER],
    ),
    (
        "the user calls nothing",
        [user(use(), TEXT), SAID],
        [("misplaced_call", 0, ("t1",))],
        [USER, calls(use()), user(result())],
    ),
    (
        "the assistant answers nothing",
        [USER, calls(TEXT, result()), USER],
        [("misplaced_result", 1, ("t1",))],
        [USER, calls(use(type="server_tool_use"), result(), TEXT), USER],
    ),
]


@pytest.mark.parametrize(
    ("illegal", "expected", "legal"), [pytest.param(*row[1:], id=row[0]) for row in RULES]
)
def test_rule(illegal, expected, legal):
    found = problems(illegal, format="bedrock")
    assert [(problem.kind, problem.index, problem.call_ids) for problem in found] == expected
    assert all(problem.message for problem in found)
    assert problems(legal, format="bedrock") == []


TAILS = [
    ("two calls", [USER, calls(use("a"), use("b"))], True),
    ("one is answered", [USER, calls(use("a"), use("b")), user(result("b"))], True),
    ("a mark", [USER, calls(use("a"), use("b")), user(result("b"), POINT)], True),
    ("a mark alone", [USER, calls(use("a")), user(POINT)], True),
    ("text beside", [USER, calls(use("a")), user(TEXT)], False),
    ("more behind", [USER, calls(use("a"), use("b")), user(result("b")), SAID], False),
    ("a stray behind", [USER, calls(use("a")), user(result("z"))], False),
]


@pytest.mark.parametrize(
    ("history", "is_tail"), [pytest.param(*row[1:], id=row[0]) for row in TAILS]
)
def test_an_open_tail(history, is_tail):
    def kinds(**options):
        return {problem.kind for problem in problems(history, format="bedrock", **options)}

    assert "dangling" in kinds()
    assert ("dangling" not in kinds(allow_open_tail=True)) is is_tail
    assert ("dangling" not in kinds(allow_open=["a", "b"])) is is_tail
    assert "dangling" in kinds(allow_open=["z"])


def test_orphans_and_the_server():
    history = [user(result("z")), calls(use()), user(result(), result("y"))]
    kinds = [problem.kind for problem in problems(history, format="bedrock")]
    assert kinds == ["orphan", "orphan"]
    assert problems(history, format="bedrock", allow_orphans=True) == []
    assert problems(history, format="bedrock", server_state=True) == []
    assert problems([SAID, USER], format="bedrock", server_state=True) == []


def test_the_words_of_the_api():
    history = [USER, calls(use("a")), user(result("b")), SAID]
    messages = [problem.message for problem in problems(history, format="bedrock")]
    assert messages == [
        "Expected toolResult blocks at messages.2.content for the following Ids: a",
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse "
        "blocks of previous turn.",
    ]
