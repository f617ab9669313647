"""What single hosts want beyond the rules of their format."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from toolmend.testing import assert_legal, problems
from toolmend.testing.strict import Profile

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "x"}
NINE = "aB3dE5fG7"


def calls(*call_ids, arguments="{}", **fields):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": "f", "arguments": arguments},
            }
            for call_id in call_ids
        ],
        **fields,
    }


def result(call_id=NINE, content="r"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def ai(*call_ids, **fields):
    return AIMessage(
        "", tool_calls=[{"name": "f", "args": {}, "id": call_id} for call_id in call_ids], **fields
    )


def use(call_id):
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call_id, "name": "f", "input": {}}],
    }


def answers(*call_ids):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call_id} for call_id in call_ids],
    }


def bedrock(role, *blocks):
    return {"role": role, "content": list(blocks)}


BEDROCK_CALL = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
BEDROCK_RESULT = {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}
THINKING = {"reasoning_content": "hm"}

# id, format, options, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    (
        "mistral: no user message behind a result",
        "openai-chat",
        {"profile": "mistral"},
        [USER, calls(NINE), result(), USER],
        [("role_order", 3, ())],
        [USER, calls(NINE), result(), SAID, USER],
    ),
    (
        "mistral: the same in langchain",
        "langchain",
        {"profile": "mistral"},
        [("human", "hi"), ai(NINE), ToolMessage("r", tool_call_id=NINE), HumanMessage("x")],
        [("role_order", 3, ())],
        [HumanMessage("hi"), ai(NINE), ToolMessage("r", tool_call_id=NINE), AIMessage("x")],
    ),
    *[
        (
            f"mistral: id {call_id!r}",
            "openai-chat",
            {"profile": "mistral"},
            [USER, calls(call_id), result(call_id)],
            [("malformed_id", 1, (call_id,)), ("malformed_id", 2, (call_id,))],
            [USER, calls(NINE), result()],
        )
        for call_id in ("call_1234", "abcdefgh", "abcdefghij", "abcdefgh\n", "abcdefghä")
    ],
    (
        "mistral: the same id in langchain",
        "langchain",
        {"profile": "mistral"},
        [ai("c1"), ToolMessage("r", tool_call_id="c1")],
        [("malformed_id", 0, ("c1",)), ("malformed_id", 1, ("c1",))],
        [ai(NINE), {"role": "tool", "tool_call_id": NINE, "content": "r"}],
    ),
    (
        "deepseek: all calls of a turn have reasoning",
        "openai-chat",
        {"profile": "deepseek-thinking"},
        [USER, calls("a", **THINKING), result("a"), calls("b"), result("b"), SAID, USER],
        [("missing_reasoning", 3, ())],
        [USER, calls("a", **THINKING), result("a"), SAID, USER, calls("b"), result("b")],
    ),
    (
        "deepseek: the last turn too, and null is missing",
        "openai-chat",
        {"profile": "deepseek-thinking"},
        [
            USER,
            calls("a", reasoning_content=None),
            result("a"),
            calls("b", **THINKING),
            result("b"),
        ],
        [("missing_reasoning", 1, ())],
        [USER, calls("a", reasoning_content=""), result("a"), calls("b", **THINKING), result("b")],
    ),
    (
        "deepseek: reasoning is a text",
        "openai-chat",
        {"profile": "deepseek-thinking"},
        [USER, calls("a", reasoning_content=["hm"]), result("a")],
        [("invalid_shape", 1, ())],
        [USER, calls("a", **THINKING), result("a")],
    ),
    (
        "deepseek: langchain keeps reasoning beside",
        "langchain",
        {"profile": "deepseek-thinking"},
        [
            ai("a", additional_kwargs=THINKING),
            ToolMessage("r", tool_call_id="a"),
            ai("b"),
            ToolMessage("r", tool_call_id="b"),
        ],
        [("missing_reasoning", 2, ())],
        [ai("a", additional_kwargs=THINKING), ToolMessage("r", tool_call_id="a")],
    ),
    (
        "dashscope: no empty messages",
        "openai-chat",
        {"profile": "dashscope"},
        [{"role": "user", "content": ""}, SAID, {"role": "user", "content": []}],
        [("empty_content", 0, ()), ("empty_content", 2, ())],
        [USER, calls("a"), result("a", content=""), {"role": "user", "content": " "}],
    ),
    (
        "dashscope: an answer without content is told once",
        "openai-chat",
        {"profile": "dashscope"},
        [USER, {"role": "assistant", "content": None}],
        [("empty_content", 1, ())],
        [USER, {"role": "assistant", "content": "0"}],
    ),
    (
        "dashscope: arguments are an object",
        "openai-chat",
        {"profile": "dashscope"},
        [USER, calls("a", arguments=""), result("a")],
        [("invalid_arguments", 1, ("a",))],
        [USER, calls("a", arguments='{"a": 1}'), result("a")],
    ),
    (
        "dashscope: langchain",
        "langchain",
        {"profile": "dashscope"},
        [HumanMessage("hi"), AIMessage(""), ("user", "")],
        [("empty_content", 1, ()), ("empty_content", 2, ())],
        [HumanMessage("hi"), ai("a"), ToolMessage("", tool_call_id="a")],
    ),
    (
        "bedrock-open-weights: results stand alone",
        "bedrock",
        {"profile": "bedrock-open-weights"},
        [
            bedrock("user", {"text": "hi"}),
            bedrock("assistant", BEDROCK_CALL),
            bedrock("user", BEDROCK_RESULT, {"text": "and"}),
        ],
        [("mixed_result_turn", 2, ())],
        [
            bedrock("user", {"text": "hi"}),
            bedrock("assistant", {"text": "x"}, BEDROCK_CALL),
            bedrock("user", BEDROCK_RESULT, {"cachePoint": {"type": "default"}}),
            bedrock("assistant", {"text": "x"}),
            bedrock("user", {"text": "and"}),
        ],
    ),
    (
        "strict alternation: one message holds a batch",
        "anthropic",
        {"strict_alternation": True},
        [
            USER,
            {"role": "assistant", "content": [*use("a")["content"], *use("b")["content"]]},
            answers("a"),
            answers("b"),
        ],
        [("split_results", 3, ())],
        [
            USER,
            {"role": "assistant", "content": [*use("a")["content"], *use("b")["content"]]},
            answers("b", "a"),
            USER,
        ],
    ),
    *[
        (
            f"max_id_len: {known_format}",
            known_format,
            {"max_id_len": 5},
            make("abcdef"),
            [("malformed_id", index, ("abcdef",)) for index in (1, 2)],
            make("abcde"),
        )
        for known_format, make in {
            "openai-chat": lambda call_id: [USER, calls(call_id), result(call_id)],
            "anthropic": lambda call_id: [USER, use(call_id), answers(call_id)],
            "langchain": lambda call_id: [
                HumanMessage("hi"),
                ai(call_id),
                ToolMessage("r", tool_call_id=call_id),
            ],
            "openai-responses": lambda call_id: [
                USER,
                {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": call_id, "output": "r"},
            ],
            "gemini": lambda call_id: [
                {"parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "id": call_id}}]},
                {"parts": [{"functionResponse": {"name": "f", "id": call_id, "response": {}}}]},
            ],
            "bedrock": lambda call_id: [
                bedrock("user", {"text": "hi"}),
                bedrock(
                    "assistant", {"toolUse": {**BEDROCK_CALL["toolUse"], "toolUseId": call_id}}
                ),
                bedrock(
                    "user", {"toolResult": {**BEDROCK_RESULT["toolResult"], "toolUseId": call_id}}
                ),
            ],
        }.items()
    ],
]


@pytest.mark.parametrize(
    ("known_format", "options", "illegal", "expected", "legal"),
    [pytest.param(*row[1:], id=row[0]) for row in RULES],
)
def test_rule(known_format, options, illegal, expected, legal):
    found = problems(illegal, format=known_format, **options)
    assert [(problem.kind, problem.index, problem.call_ids) for problem in found] == expected
    with pytest.raises(AssertionError, match=expected[0][0]):
        assert_legal(illegal, format=known_format, **options)
    assert problems(legal, format=known_format, **options) == []
    without = {problem.kind for problem in problems(illegal, format=known_format)}
    assert without <= {"invalid_arguments", "empty_content"}


@pytest.mark.parametrize("profile", Profile.__args__)
@pytest.mark.parametrize("known_format", ["anthropic", "gemini", "openai-responses"])
def test_a_profile_of_another_format(profile, known_format):
    history = [{"role": "user", "content": "hi", "parts": [{"text": "hi"}]}]
    assert problems(history, format=known_format, profile=profile) == []


def test_the_words_of_the_hosts():
    def words(history, **options):
        found = problems(history, format="openai-chat", **options)
        return [problem.message for problem in found]

    assert words([USER, calls(NINE), USER, result()], profile="mistral") == [
        "Not the same number of function calls and responses",
        "Not the same number of function calls and responses",
    ]
    assert words([calls("a"), result("a")], profile="mistral")[0] == (
        "Tool call id was a but must be a-z, A-Z, 0-9, with a length of 9."
    )
    assert words([calls("a", arguments="["), result("a")], profile="dashscope") == [
        '<400> InternalError.Algo.InvalidParameter: The "function.arguments" parameter of the code '
        "model must be in JSON format."
    ]
    assert words([calls("ab"), result("ab")], max_id_len=1)[0] == (
        "Invalid 'messages[0].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 1, but got a string with length 2 instead."
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "azure"}, "profile is None or one of 'mistral', .*, not 'azure'"),
        ({"profile": ""}, "not ''"),
        ({"max_id_len": 0}, "max_id_len is None or a positive integer, not 0"),
        ({"max_id_len": True}, "not True"),
        ({"max_id_len": "40"}, "not '40'"),
    ],
)
def test_options_that_cannot_work(options, words):
    with pytest.raises(ValueError, match=words) as failure:
        problems([USER], format="openai-chat", **options)
    assert "\n" not in str(failure.value)
    with pytest.raises(ValueError, match=words):
        assert_legal([USER], **options)


def test_an_anthropic_result_whose_call_is_on_the_server():
    history = [answers("z"), SAID, answers("y")]
    assert len(problems(history, format="anthropic")) == 2
    assert problems(history, format="anthropic", server_state=True) == []
