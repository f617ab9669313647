"""Each rule of Anthropic Messages: one history that breaks it, and a near miss that is legal."""

from __future__ import annotations

import pytest

from toolmend.testing import problems


def user(*content):
    return {"role": "user", "content": list(content) if content else "hi"}


def assistant(*content):
    return {"role": "assistant", "content": list(content) if content else "ok"}


def text(words="words"):
    return {"type": "text", "text": words}


def use(call_id="t1", name="f", arguments=None):
    value = {} if arguments is None else arguments
    return {"type": "tool_use", "id": call_id, "name": name, "input": value}


def result(call_id="t1", content="r"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def server(call_id="s1", name="web_search", kind="server_tool_use"):
    return {"type": kind, "id": call_id, "name": name, "input": {}}


def served(call_id="s1", kind="web_search_tool_result"):
    return {"type": kind, "tool_use_id": call_id, "content": []}


SYSTEM = {"role": "system", "content": "s"}
UNKNOWN = {"role": "reviewer", "content": "s"}
THINKING = {"type": "thinking", "thinking": "t", "signature": "S"}
REDACTED = {"type": "redacted_thinking", "data": "D"}
MIXED = assistant(server(), use())  # one server call beside one client call
PAIR = [assistant(use()), user(result())]

# id, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    (
        "each call is answered",
        [user(), assistant(use()), user()],
        [("dangling", 1, ("t1",))],
        [user(), assistant(use()), user(result())],
    ),
    (
        "a call at the end is answered too",
        [user(), assistant(text(), use())],
        [("dangling", 1, ("t1",))],
        [user(), assistant(text())],
    ),
    (
        "every call of a batch",
        [assistant(use("a"), use("b"), use("c")), user(result("b"))],
        [("dangling", 0, ("a", "c"))],
        [assistant(use("a"), use("b")), user(result("b"), result("a"), text())],
    ),
    (
        "in the very next user turn",
        [assistant(use()), user(), assistant(), user(result())],
        [("dangling", 0, ("t1",)), ("orphan", 3, ("t1",))],
        [assistant(use()), user(result()), assistant(), user()],
    ),
    (
        "user messages are joined, but results come first",
        [assistant(use("a"), use("b")), user(result("a"), text()), user(result("b"))],
        [("misplaced_result", 2, ("b",))],
        [assistant(use("a"), use("b")), user(result("a")), user(result("b"), text()), user()],
    ),
    (
        "assistant messages are joined",
        [assistant(use("a")), assistant(use("b")), user(result("b"))],
        [("dangling", 0, ("a",))],
        [assistant(use("a")), assistant(use("b")), user(result("b"), result("a"))],
    ),
    (
        "a call before an assistant text is answered behind it",
        [assistant(use()), user(result()), assistant(use("b")), assistant(text()), user()],
        [("dangling", 2, ("b",))],
        [assistant(use()), assistant(text()), user(result())],
    ),
    (
        "results come first in their turn",
        [assistant(use()), user(text(), result())],
        [("misplaced_result", 1, ("t1",))],
        [assistant(use()), user(result(), text())],
    ),
    (
        "an image before the result",
        [assistant(use()), user({"type": "image", "source": {}}, result())],
        [("misplaced_result", 1, ("t1",))],
        [assistant(use()), user(result(), {"type": "image", "source": {}})],
    ),
    (
        "a result has its call in the turn before",
        [user(text(), result())],
        [("orphan", 0, ("t1",))],
        [user(text()), assistant(use()), user(result())],
    ),
    (
        "a result of an earlier turn",
        [*PAIR, assistant(), user(result())],
        [("orphan", 3, ("t1",))],
        [*PAIR, assistant(), user()],
    ),
    (
        "a result in an assistant turn",
        [user(), assistant(use(), result()), user(result())],
        [("orphan", 1, ("t1",))],
        [user(), assistant(use()), user(result())],
    ),
    (
        "one result per call",
        [assistant(use()), user(result(), result())],
        [("duplicate_result", 1, ("t1",))],
        [assistant(use("a"), use("b")), user(result("a"), result("b"))],
    ),
    (
        "one result per call, also in two messages",
        [assistant(use()), user(result()), user(result())],
        [("duplicate_result", 2, ("t1",))],
        [assistant(use()), user(result()), user(text())],
    ),
    (
        "tool_use in a user message is not judged",
        [user(use("a")), assistant(), user(result("a"))],
        [("orphan", 2, ("a",))],
        [user(use("a")), assistant(), user()],
    ),
    (
        "ids are unique in the whole request",
        [*PAIR, *PAIR],
        [("duplicate_id", 2, ("t1",))],
        [*PAIR, assistant(use("T1")), user(result("T1"))],
    ),
    (
        "ids are unique in a turn",
        [assistant(use(), use()), user(result(), result())],
        [("duplicate_id", 0, ("t1",))],
        [assistant(use(), server("t1"), served("t1")), user(result())],
    ),
    *[
        (
            f"id {bad!r} has a bad character",
            [assistant(use(bad)), user(result(bad))],
            [("malformed_id", 0, (bad,))],
            [assistant(use("a-B_9")), user(result("a-B_9"))],
        )
        for bad in ("a:b", "functions.f", "a b", "a\n", "ä")
    ],
    *[
        (
            f"id {bad!r} is missing",
            [assistant(use(bad)), user(result(bad))],
            [("missing_id", 0, ()), ("missing_id", 1, ())],
            [assistant(use("x" * 70)), user(result("x" * 70))],
        )
        for bad in ("", " ", None, 5, {})
    ],
    *[
        (
            f"name {bad!r} is missing",
            [assistant(use(name=bad)), user(result())],
            [("nameless_call", 0, ("t1",))],
            [assistant(use(name="f")), user(result())],
        )
        for bad in ("", " ", None)
    ],
    *[
        (
            f"input {bad!r} is no object",
            [assistant(use(arguments=bad)), user(result())],
            [("invalid_arguments", 0, ("t1",))],
            [assistant(use(arguments={"a": 1})), user(result())],
        )
        for bad in ("{}", [], 0)
    ],
    (
        "a server call has name and input",
        [user(), assistant({"type": "server_tool_use", "id": "s1"}, served())],
        [("nameless_call", 1, ("s1",)), ("invalid_arguments", 1, ("s1",))],
        [user(), assistant(server(), served())],
    ),
    *[
        (
            f"content {bad!r} is empty",
            [user(), {"role": "assistant", "content": bad}, user()],
            [("empty_content", 1, ())],
            [user(), {"role": "assistant", "content": bad}],
        )
        for bad in ("", " \n", [], None)
    ],
    (
        "user content is not empty, last or not",
        [user(), assistant(), {"role": "user", "content": ""}],
        [("empty_content", 2, ())],
        [user(), assistant(), {"role": "user", "content": "."}],
    ),
    (
        "text blocks are not blank, last or not",
        [user(text(" ")), assistant(text(""))],
        [("blank_text", 0, ()), ("blank_text", 1, ())],
        [user(text(".")), assistant({"type": "document", "text": ""})],
    ),
    (
        "content of results is not judged",
        [assistant(use()), user(result(), text(""))],
        [("blank_text", 1, ())],
        [assistant(use()), user(result(content=[text("")]))],
    ),
    (
        "a block is an object",
        [user("words")],
        [("invalid_shape", 0, ())],
        [user(text("words"))],
    ),
    *[
        (
            f"{block['type']} does not end a turn",
            [user(), assistant(text(), block), user()],
            [("trailing_thinking", 1, ())],
            [user(), assistant(block, text()), user(), assistant(text(), block)],
        )
        for block in (THINKING, REDACTED)
    ],
    (
        "thinking at the end of a message may go on in the turn",
        [assistant(text()), assistant(THINKING), SYSTEM],
        [("trailing_thinking", 1, ()), ("misplaced_system", 2, ())],
        [assistant(THINKING), assistant(text()), user()],
    ),
    (
        "system does not follow an assistant message",
        [user(), assistant(), SYSTEM, user()],
        [("misplaced_system", 2, ())],
        [SYSTEM, user(), SYSTEM, SYSTEM, assistant(), user()],
    ),
    (
        "system breaks a turn",
        [assistant(use("a"), use("b")), user(result("a")), SYSTEM, user(result("b"))],
        [("dangling", 0, ("b",)), ("orphan", 3, ("b",))],
        [assistant(use("a"), use("b")), user(result("a"), result("b")), SYSTEM, user()],
    ),
    (
        "an unknown role breaks a turn",
        [assistant(use()), UNKNOWN, user(result())],
        [("dangling", 0, ("t1",)), ("orphan", 2, ("t1",))],
        [UNKNOWN, assistant(use()), user(result()), UNKNOWN],
    ),
    # server calls
    (
        "a server call is answered in its turn",
        [user(), assistant(server(), text()), user()],
        [("dangling", 1, ("s1",))],
        [user(), assistant(server(), text(), served(), text()), user()],
    ),
    (
        "an MCP call too",
        [user(), assistant(server(kind="mcp_tool_use")), user()],
        [("dangling", 1, ("s1",))],
        [
            user(),
            assistant(server(kind="mcp_tool_use"), served(kind="mcp_tool_result")),
            user(),
        ],
    ),
    (
        "never by a tool_result",
        [user(), assistant(server()), user(result("s1"))],
        [("dangling", 1, ("s1",)), ("orphan", 2, ("s1",))],
        [user(), assistant(server()), assistant(served()), user()],
    ),
    (
        "its result stands after it",
        [user(), assistant(served(), server()), user()],
        [("orphan", 1, ("s1",)), ("dangling", 1, ("s1",))],
        [user(), assistant(server(), served()), user()],
    ),
    (
        "pause_turn is the very last turn",
        [user(), assistant(text(), server()), SYSTEM],
        [("dangling", 1, ("s1",)), ("misplaced_system", 2, ())],
        [user(), assistant(text(), server())],
    ),
    (
        "a server result has its call",
        [user(), assistant(served()), user()],
        [("orphan", 1, ("s1",))],
        [user(), assistant(server(), served()), user()],
    ),
    (
        "a server result in a user turn",
        [user(), assistant(server(), served()), user(served())],
        [("orphan", 2, ("s1",))],
        [user(), assistant(server(), served()), user()],
    ),
    (
        "one result per server call",
        [user(), assistant(server(), served(), served()), user()],
        [("duplicate_result", 1, ("s1",))],
        [user(), assistant(server(), served(), server("s2"), served("s2")), user()],
    ),
    (
        "server ids are unique within a turn",
        [user(), assistant(server(), served(), server(), served()), user()],
        [("duplicate_id", 1, ("s1",)), ("duplicate_result", 1, ("s1",))],
        [user(), assistant(server(), served()), user(), assistant(server(), served())],
    ),
    (
        "server ids are there",
        [user(), assistant(server("")), user()],
        [("missing_id", 1, ())],
        [user(), assistant(server("any:id."), served("any:id.")), user()],
    ),
    (
        "server results name a call",
        [user(), assistant(server(), served(), served(" ")), user()],
        [("missing_id", 1, ())],
        [user(), assistant(server(), served()), user()],
    ),
    (
        "deferred: the next turn holds nothing but results",
        [user(), MIXED, user(result(), text())],
        [("dangling", 1, ("s1",))],
        [user(), MIXED, user(result())],
    ),
    (
        "deferred: not without client calls",
        [user(), assistant(server()), user(text()), assistant(text())],
        [("dangling", 1, ("s1",))],
        [user(), MIXED, user(result()), assistant(served(), text())],
    ),
    (
        "deferred: a later turn without client calls has to answer it",
        [user(), MIXED, user(result()), assistant(text())],
        [("dangling", 1, ("s1",))],
        [user(), MIXED, user(result()), assistant(text(), served()), user()],
    ),
    (
        "deferred: over further turns with results only",
        [user(), MIXED, user(result()), assistant(use("t2")), user(result("t2"), text())],
        [("dangling", 1, ("s1",))],
        [
            user(),
            MIXED,
            user(result()),
            assistant(use("t2")),
            user(result("t2")),
            assistant(served(), use("t3")),
            user(result("t3"), text()),
        ],
    ),
    (
        "deferred: not any more after user text",
        [user(), MIXED, user(result()), user(text()), assistant(served()), user()],
        [("dangling", 1, ("s1",)), ("orphan", 4, ("s1",))],
        [user(), MIXED, user(result()), assistant(served()), user(text())],
    ),
    (
        "deferred: user text behind a system message ends it",
        [user(), MIXED, user(result()), SYSTEM, user(), assistant(served())],
        [("dangling", 1, ("s1",)), ("orphan", 5, ("s1",))],
        [user(), MIXED, user(result()), SYSTEM, assistant(served())],
    ),
    (
        "deferred: answered once",
        [user(), MIXED, user(result()), assistant(served(), served()), user()],
        [("duplicate_result", 3, ("s1",))],
        [user(), MIXED, user(result()), assistant(served()), user()],
    ),
    (
        "deferred: a new server call may pause where the old one is answered",
        [user(), MIXED, user(result()), assistant(text(), server("s2"))],
        [("dangling", 1, ("s1",))],
        [user(), MIXED, user(result()), assistant(served(), server("s2"))],
    ),
    (
        "a server call beside client calls at the end waits for them",
        [user(), MIXED],
        [("dangling", 1, ("t1",))],
        [user(), MIXED, user(result())],
    ),
]


def shapes(found):
    return [(problem.kind, problem.index, problem.call_ids) for problem in found]


@pytest.mark.parametrize(
    ("illegal", "expected"), [pytest.param(rule[1], rule[2], id=rule[0]) for rule in RULES]
)
def test_refuses(illegal, expected):
    assert sorted(shapes(problems(illegal, format="anthropic"))) == sorted(expected)


@pytest.mark.parametrize("legal", [pytest.param(rule[3], id=rule[0]) for rule in RULES])
def test_accepts_the_near_miss(legal):
    assert problems(legal, format="anthropic") == []


def test_an_empty_history_has_no_problems():
    assert problems([], format="anthropic") == []


WORDS = [
    (
        "dangling",
        [user(), assistant(use("a"), use("b")), user()],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, "
        "b. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message.",
    ),
    (
        "misplaced, which the API takes for missing",
        [user(), assistant(use("a")), user(text(), result("a"))],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    (
        "orphan",
        [user(text(), result("a"))],
        "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: a. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    (
        "server orphan",
        [user(), assistant(served("s", "advisor_tool_result"))],
        "messages.1.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: s. "
        "Each `advisor_tool_result` block must have a corresponding `server_tool_use` block "
        "before it.",
    ),
    (
        "MCP orphan",
        [user(), assistant(served("s", "mcp_tool_result"))],
        "messages.1.content.0: unexpected `tool_use_id` found in `mcp_tool_result` blocks: s. "
        "Each `mcp_tool_result` block must have a corresponding `mcp_tool_use` block before it.",
    ),
    *[
        (
            f"server dangling {name}",
            [user(), assistant(server("s", name, kind)), user()],
            f"messages.1: `{name}` tool use with id `s` was found without a corresponding "
            f"`{result_kind}` block",
        )
        for name, kind, result_kind in [
            ("web_search", "server_tool_use", "web_search_tool_result"),
            ("tool_search_tool_regex", "server_tool_use", "tool_search_tool_result"),
            ("echo", "mcp_tool_use", "mcp_tool_result"),
        ]
    ],
]


@pytest.mark.parametrize(("history", "words"), [pytest.param(*row[1:], id=row[0]) for row in WORDS])
def test_the_words_of_the_provider(history, words):
    assert [problem.message for problem in problems(history, format="anthropic")] == [words]


TAIL = [user(), assistant(use("a"), use("b")), user(result("a"))]
OPTIONS = [
    ("tail open", TAIL, {"allow_open_tail": True}, True),
    ("tail without any result", TAIL[:2], {"allow_open_tail": True}, True),
    ("tail beside a server call", [user(), MIXED], {"allow_open_tail": True}, True),
    ("tail with text", [*TAIL, user()], {"allow_open_tail": True}, False),
    ("tail with a stray result", [*TAIL, user(result("z"))], {"allow_open_tail": True}, False),
    ("tail before an unknown role", [*TAIL, UNKNOWN], {"allow_open_tail": True}, False),
    ("call before an unknown role", [*TAIL[:2], UNKNOWN], {"allow_open_tail": True}, False),
    (
        "call before an empty unknown message",
        [*TAIL[:2], {"role": "reviewer"}],
        {"allow_open_tail": True},
        False,
    ),
    ("this id open", TAIL, {"allow_open": ("b",)}, True),
    ("another id open", TAIL, {"allow_open": ("a",)}, False),
    ("this id, but not at the end", [*TAIL, assistant()], {"allow_open": ("b",)}, False),
    ("orphan allowed", [user(result("z"), text())], {"allow_orphans": True}, True),
    ("orphan behind text", [user(text(), result("z"))], {"allow_orphans": True}, True),
    ("server orphan allowed", [user(), assistant(served())], {"allow_orphans": True}, True),
    ("second result", [*PAIR, user(result())], {"allow_orphans": True}, False),
    ("result without id", [user(result(""))], {"allow_orphans": True}, False),
]


@pytest.mark.parametrize(
    ("history", "options", "is_legal"), [pytest.param(*row[1:], id=row[0]) for row in OPTIONS]
)
def test_options(history, options, is_legal):
    assert (problems(history, format="anthropic", **options) == []) is is_legal
