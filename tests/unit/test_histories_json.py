"""JSON texts: read with the text of each part, and written back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.histories import assistant, dangling, tool, user
from toolmend import Policy, repair
from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.json_text import JsonText
from toolmend._histories.json_writer import with_messages
from toolmend._histories.judged import judge

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
SPELLINGS = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, None, 0, 1, 4, "\t"]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


def containers(value):
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from containers(inner)


@given(VALUES, SPELLINGS)
def test_careful_reading_agrees_with_json(value, spelling):
    text = json.dumps(value, **spelling)
    read = JsonText(text)

    assert read.value == json.loads(text)
    for part in containers(read.value):
        known = read.text_of(part)
        assert known is None or json.loads(known) == part


@given(VALUES, VALUES, SPELLINGS)
def test_a_legal_text_needs_no_writing(value, other, spelling):
    text = json.dumps({"x": value, "messages": [{**user(), "x": other}], "y": 1}, **spelling)

    assert judge(text, Policy()).mended_text() is None


@given(VALUES, VALUES, VALUES, SPELLINGS)
def test_what_does_not_change_keeps_its_text(around, inside, behind, spelling):
    messages = [{**user(), "x": inside}, {**assistant("c1"), "y": behind}, {**user(), "z": inside}]
    text = json.dumps({"x": around, "messages": messages, "z": behind}, **spelling)
    read = JsonText(text)

    mended = judge(text, Policy()).mended_text()

    assert mended is not None
    assert json.loads(mended) == {
        "x": around,
        "messages": list(repair(messages).messages),
        "z": behind,
    }
    start, end = read.span_of(read.value["messages"])
    assert mended.startswith(text[:start])
    assert mended.endswith(text[end:])
    for message in read.value["messages"]:
        assert read.text_of(message) in mended


@pytest.mark.parametrize(
    "spelling",
    [
        {},
        {"separators": (",", ":")},
        {"indent": 2},
        {"indent": 4, "ensure_ascii": False},
        {"indent": "\t"},
        {"indent": 0},
    ],
    ids=["default", "compact", "two", "four", "tab", "none"],
)
@pytest.mark.parametrize(
    "messages",
    [
        dangling(),
        [assistant("c1", "c2"), tool("c2")],
        [
            user("é"),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            },
            {"role": "user", "content": "é"},
        ],
        [tool("c9"), user()],
    ],
    ids=["chat", "end", "anthropic", "orphan"],
)
def test_what_is_new_is_spelt_like_the_rest(messages, spelling):
    text = json.dumps({"model": "m", "messages": messages, "stop": []}, **spelling)

    mended = judge(text, Policy()).mended_text()

    expected = {"model": "m", "messages": list(repair(messages).messages), "stop": []}
    written = json.dumps(expected, **spelling)
    if spelling.get("indent") == 0:
        assert json.loads(mended) == json.loads(written)
    else:
        assert mended == written


def test_a_list_with_one_message_per_line_keeps_that():
    lines = ",\r\n  ".join(map(json.dumps, dangling()))

    mended = judge(f"[\r\n  {lines}\r\n]", Policy()).mended_text()

    rows = mended.split("\r\n")
    assert len(rows) == 6
    assert all(row.startswith("  {") for row in rows[1:-1])


@pytest.mark.parametrize(
    "number",
    ["1.0", "1.10", "1e400", "-0", "-0.0", "1E5", "12345678901234567890123", "9" * 5000, "NaN"],
)
def test_numbers_keep_their_text_in_messages_that_are_rewritten(number):
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    text = json.dumps(
        [
            {"role": "assistant", "content": [call]},
            {"role": "user", "n": "HERE", "content": [{"type": "text", "text": "x", "d": "HERE"}]},
        ]
    ).replace('"HERE"', number)

    mended = judge(text, Policy()).mended_text()

    assert "tool_result" in mended
    assert mended.count(f": {number}") == 2


@pytest.mark.parametrize(
    "text",
    [
        '[{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",'
        ' "function": {"name": "f", "arguments": {"n": 1e400}}}]}]',
        '[{"role": "assistant", "content": ['
        '{"type": "tool_use", "id": "t1", "name": "f", "input": {"n": 1e400}},'
        '{"type": "tool_use", "id": "t1", "name": "f", "input": {"n": 1e500}}]}]',
    ],
    ids=["as-text", "copies"],
)
def test_arguments_that_python_cannot_read_are_refused(text):
    """Python reads both numbers as infinite: the second call would be taken for a copy."""
    with pytest.raises(StoredHistoryError, match="too big"):
        judge(text, Policy()).mended_text()


def test_a_key_given_twice_stands_for_its_last_value():
    text = '{"messages": [], "messages": ' + json.dumps(dangling()) + "}"

    mended = judge(text, Policy()).mended_text()

    assert mended.startswith('{"messages": [], "messages": [{')
    assert len(json.loads(mended)["messages"]) == 4


def test_half_a_surrogate_pair_is_written_as_an_escape():
    text = '[%s, {"role": "user", "content": "é"}, {"role": "tool", "tool_call_id": "\\ud800"}]'
    text %= json.dumps(assistant("\ud800"), ensure_ascii=True)

    mended = judge(text, Policy()).mended_text()

    assert mended.encode()
    assert "é" in mended


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("[1,", "invalid JSON at column 4", 1),
        ('[\n{"a": }]', "invalid JSON at column 7", 2),
        ("[1] 2", "invalid JSON at column 5: Extra data", 1),
        ("[" * 100_000, "nested too deep", None),
    ],
    ids=["end", "line", "extra", "deep"],
)
@pytest.mark.parametrize("read", [JsonText, lambda text: judge(text, Policy())])
def test_a_text_that_is_no_json_says_where(text, words, line, read):
    with pytest.raises(StoredHistoryError, match=words) as caught:
        read(text)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ['{"a" 1}', "{1: 2}", '{"a": 1,}', "[1 2]", '{"a": 1', "[1,]"])
def test_careful_reading_refuses_what_json_refuses(text):
    with pytest.raises(json.JSONDecodeError) as told:
        json.loads(text)
    with pytest.raises(StoredHistoryError) as caught:
        JsonText(text)
    # Some versions of Python name the comma in front of what is missing.
    columns = (told.value.colno, told.value.colno + 1)
    assert any(f"column {column}:" in str(caught.value) for column in columns)


@pytest.mark.parametrize(
    ("text", "other", "are_equal"),
    [
        ("-0", "-0", True),
        ("-0", "0", True),
        ("1.10", "1.10", True),
        ("1.10", "1.1", True),
        ("1.10", "1.100", False),
        ("1e400", "1e500", False),
        ("9" * 5000, "9" * 5000, True),
        ("9" * 5000, "8" * 5000, False),
        ("9" * 5000, "0", False),
    ],
)
def test_numbers_are_compared_as_far_as_python_knows_them(text, other, are_equal):
    one, two = JsonText(f"[{text}, {other}]").value

    assert (one == two) is are_equal
    if are_equal:
        assert hash(one) == hash(two)


def test_messages_of_another_kind_have_no_text_of_their_own():
    read = JsonText('["a", "b"]')

    assert with_messages(read, read.value, ["c", 1.5, float(2)]) == '["c", 1.5, 2.0]'
    with pytest.raises(StoredHistoryError, match="too big"):
        with_messages(read, read.value, [float("inf")])


def test_what_has_no_json_form_is_refused():
    read = JsonText(json.dumps([user()]))

    with pytest.raises(StoredHistoryError, match="no JSON form"):
        with_messages(read, read.value, [object()])
    assert with_messages(read, read.value, []) == "[]"
