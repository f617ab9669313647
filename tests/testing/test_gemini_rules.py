"""Each rule of Gemini: one history that breaks it, and a near miss that is legal."""

from __future__ import annotations

import json

import pytest

from toolmend.testing import problems

USER = {"role": "user", "parts": [{"text": "hi"}]}
MODEL = {"role": "model", "parts": [{"text": "x"}]}
SIGNED = {"thoughtSignature": "SIG"}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
STRANGER = {"role": "reviewer", "parts": [{"text": "x"}]}


def fc(name="f", call_id=None, args=None, **fields):
    call = {"name": name, "args": args or {}, **({"id": call_id} if call_id else {})}
    return {"functionCall": call, **fields}


def fr(name="f", call_id=None, response=None):
    response = {"result": "r"} if response is None else response
    return {
        "functionResponse": {
            "name": name,
            "response": response,
            **({"id": call_id} if call_id else {}),
        }
    }


def model(*parts, **fields):
    return {"role": "model", "parts": list(parts), **fields}


def user(*parts, **fields):
    return {"role": "user", "parts": list(parts), **fields}


# id, illegal history, its problems as (kind, index, ids), legal near miss
RULES = [
    (
        "each call is answered",
        [USER, model(fc()), USER],
        [("dangling", 1, ())],
        [USER, model(fc()), user(fr()), USER],
    ),
    (
        "a call at the end is answered too",
        [USER, model(fc(call_id="a"))],
        [("dangling", 1, ("a",))],
        [USER, model(fc(call_id="a")), user(fr(call_id="a"))],
    ),
    (
        "every call of a batch",
        [USER, model(fc("f", "a"), fc("g", "b"), fc("h", "c")), user(fr("g", "b"))],
        [("dangling", 1, ("a", "c"))],
        [
            USER,
            model(fc("f", "a"), fc("g", "b"), fc("h", "c")),
            user(fr("h", "c"), fr("f", "a"), fr("g", "b")),
        ],
    ),
    (
        "one content holds all responses",
        [USER, model(fc("w"), fc("w")), user(fr("w")), user(fr("w"))],
        [("dangling", 1, ()), ("orphan", 3, ())],
        [USER, model(fc("w"), fc("w")), user(fr("w"), fr("w")), USER],
    ),
    (
        "the responses stand right behind the calls",
        [USER, model(fc(call_id="a")), USER, user(fr(call_id="a"))],
        [("dangling", 1, ("a",)), ("orphan", 3, ("a",))],
        [USER, model(fc(call_id="a")), user(fr(call_id="a"), {"text": "and"}), USER],
    ),
    (
        "an unknown role stands between",
        [USER, model(fc()), STRANGER, user(fr())],
        [("dangling", 1, ()), ("orphan", 3, ())],
        [USER, STRANGER, model(fc()), user(fr())],
    ),
    (
        "a response has a call",
        [user(fr(call_id="a")), MODEL],
        [("orphan", 0, ("a",))],
        [USER, model(fc(call_id="a")), user(fr(call_id="a")), MODEL],
    ),
    (
        "a response has its call in the content before",
        [USER, model(fc()), user(fr(), fr("g")), MODEL],
        [("orphan", 2, ())],
        [USER, model(fc(), fc("g")), user(fr(), fr("g")), MODEL],
    ),
    (
        "one response per call",
        [USER, model(fc()), user(fr(), fr())],
        [("duplicate_result", 2, ())],
        [USER, model(fc(), fc()), user(fr(), fr())],
    ),
    (
        "one response per call with an id",
        [USER, model(fc(call_id="a")), user(fr(call_id="a"), fr(call_id="a"))],
        [("duplicate_result", 2, ("a",))],
        [USER, model(fc(call_id="a"), fc(call_id="b")), user(fr(call_id="b"), fr(call_id="a"))],
    ),
    (
        "names are equal",
        [USER, model(fc("f")), user(fr("g"))],
        [("dangling", 1, ()), ("orphan", 2, ())],
        [USER, model(fc("f"), fc("g")), user(fr("g"), fr("f"))],
    ),
    (
        "names are equal beside equal ids",
        [USER, model(fc("f", "a")), user(fr("g", "a"))],
        [("wrong_name", 2, ("a",))],
        [USER, model(fc("f", "a")), user(fr("f", "a"))],
    ),
    (
        "ids are equal",
        [USER, model(fc("f", "a")), user(fr("f", "b"))],
        [("dangling", 1, ("a",)), ("orphan", 2, ("b",))],
        [USER, model(fc("f")), user(fr("f", "b"))],
    ),
    (
        "the id is copied",
        [USER, model(fc("f", "a")), user(fr("f"))],
        [("missing_id", 2, ("a",))],
        [USER, model(fc("f", "a"), fc("f")), user(fr("f"), fr("f", "a"))],
    ),
    (
        "ids go before names",
        [USER, model(fc("f", "a"), fc("f", "b")), user(fr("f"), fr("f", "a"))],
        [("missing_id", 2, ("b",))],
        [USER, model(fc("f", "a"), fc("f", "b")), user(fr("f", "b"), fr("f", "a"))],
    ),
    (
        "a history does not open with a call",
        [model(fc()), user(fr()), MODEL],
        [("bad_first_turn", 0, ())],
        [MODEL, USER, model(fc()), user(fr()), MODEL],
    ),
    (
        "a call stands behind a content of the user",
        [USER, MODEL, model(fc()), user(fr())],
        [("misplaced_call", 2, ())],
        [USER, model({"text": "x"}, fc()), user(fr()), model(fc()), user(fr())],
    ),
    (
        "a call comes from the model",
        [USER, user(fc()), user(fr())],
        [("misplaced_call", 1, ())],
        [{"parts": [{"text": "hi"}]}, model(fc()), {"parts": [fr()]}],
    ),
    (
        "a response does not come from the model",
        [USER, model(fc()), model(fr())],
        [("dangling", 1, ()), ("misplaced_result", 2, ())],
        [USER, model(fc()), {"role": "function", "parts": [fr()]}],
    ),
    *[
        (
            f"response {response!r} is no object",
            [USER, model(fc()), user(fr(response=response))],
            [("invalid_result", 2, ())],
            [USER, model(fc()), user(fr(response={}))],
        )
        for response in ("", "r", ["r"], 3)
    ],
    *[
        (
            f"args {args!r} are no object",
            [USER, model(fc(call_id="a", args=args)), user(fr(call_id="a"))],
            [("invalid_arguments", 1, ("a",))],
            [USER, model({"functionCall": {"name": "f"}}), user(fr())],
        )
        for args in ("{}", [1], 7)
    ],
    *[
        (
            f"a call named {name!r}",
            [USER, model(fc(name, "a")), user(fr(name, "a"))],
            [("nameless_call", 1, ("a",))],
            [USER, model(fc("0", "a")), user(fr("0", "a"))],
        )
        for name in ("", " ", None)
    ],
    *[
        (
            f"parts {parts!r}",
            [USER, {"role": "model", "parts": parts}, USER],
            [("empty_content", 1, ())],
            [USER, model({"text": ""}), USER],
        )
        for parts in ([], None, "text")
    ],
    (
        "a part without data",
        [USER, model({}, {"thought": True}, {"text": None})],
        [("empty_part", 1, ()), ("empty_part", 1, ()), ("empty_part", 1, ())],
        [USER, model({"text": "", "thoughtSignature": "S"}, {"executableCode": {}})],
    ),
    (
        "a part that is no object",
        [USER, model("text", {"functionCall": "f"}), user({"functionResponse": [1]})],
        [("invalid_shape", 1, ()), ("invalid_shape", 1, ()), ("invalid_shape", 2, ())],
        [USER, model({"text": "text"})],
    ),
    (
        "nothing stands between the responses of a batch",
        [USER, model(fc("f"), fc("g")), user(fr("f"), IMAGE, fr("g"))],
        [("mixed_result_turn", 2, ())],
        [USER, model(fc("f"), fc("g")), user(fr("f"), fr("g"), IMAGE)],
    ),
    (
        "a single response may have company",
        [USER, model(fc("f"), fc("g")), user(fr("f"), IMAGE, IMAGE, {"text": "x"}, fr("g"))],
        [("mixed_result_turn", 2, ())],
        [USER, model(fc("f")), user(IMAGE, fr("f"), IMAGE)],
    ),
    (
        "the first call of a batch has the signature",
        [USER, model(fc("f", "a"), fc("g", "b", **SIGNED)), user(fr("f", "a"), fr("g", "b"))],
        [("misplaced_signature", 1, ("a",))],
        [
            USER,
            model(fc("f", "a", **SIGNED), fc("g", "b")),
            user(fr("f", "a"), fr("g", "b")),
            model(fc("f"), fc("g")),
            user(fr("f"), fr("g")),
        ],
    ),
]

SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "thoughtSignature": "thought_signature",
    "inlineData": "inline_data",
    "executableCode": "executable_code",
}


def in_snake_case(history):
    text = json.dumps(history)
    for camel, snake in SNAKE.items():
        text = text.replace(f'"{camel}"', f'"{snake}"')
    return json.loads(text)


@pytest.mark.parametrize("spell", [list, in_snake_case])
@pytest.mark.parametrize(
    ("illegal", "expected", "legal"), [pytest.param(*row[1:], id=row[0]) for row in RULES]
)
def test_rule(illegal, expected, legal, spell):
    found = problems(spell(illegal), format="gemini")
    assert [(problem.kind, problem.index, problem.call_ids) for problem in found] == expected
    assert all(problem.message for problem in found)
    assert problems(spell(legal), format="gemini") == []


TAILS = [
    ("two calls", [USER, model(fc("f", "a"), fc("g", "b"))], True),
    ("one is answered", [USER, model(fc("f", "a"), fc("g", "b")), user(fr("g", "b"))], True),
    ("text beside", [USER, model(fc("f", "a")), user({"text": "x"})], False),
    ("text beside a result", [USER, model(fc("f", "a"), fc()), user(fr(), {"text": "x"})], False),
    ("more behind", [USER, model(fc("f", "a"), fc()), user(fr()), MODEL], False),
    ("a stray behind", [USER, model(fc("f", "a")), user(fr("z", "z"))], False),
]


@pytest.mark.parametrize(
    ("history", "is_tail"), [pytest.param(*row[1:], id=row[0]) for row in TAILS]
)
def test_an_open_tail(history, is_tail):
    def kinds(**options):
        return {problem.kind for problem in problems(history, format="gemini", **options)}

    assert "dangling" in kinds()
    assert ("dangling" not in kinds(allow_open_tail=True)) is is_tail
    assert ("dangling" not in kinds(allow_open=["a", "b"])) is is_tail
    assert "dangling" in kinds(allow_open=["z"])


def test_orphans_and_the_server():
    history = [user(fr("f", "a")), MODEL, USER, model(fc()), user(fr(), fr("z"))]
    kinds = [problem.kind for problem in problems(history, format="gemini")]
    assert kinds == ["orphan", "orphan"]
    assert problems(history, format="gemini", allow_orphans=True) == []
    assert problems(history, format="gemini", server_state=True) == []
    opened = [model(fc()), user(fr(), fr())]
    assert problems(opened, format="gemini", server_state=True) == []


def test_a_thousand_calls_of_one_name():
    size = 20_000
    calls = [fc("f", f"c{number}") for number in range(size)]
    answers = [fr("f", f"c{number}") for number in reversed(range(size))]
    assert problems([USER, model(*calls), user(*answers)], format="gemini") == []
    found = problems([USER, model(*calls), user(*[fr("f")] * size)], format="gemini")
    assert {problem.kind for problem in found} == {"missing_id"}
