"""How a file is divided into JSON texts."""

from __future__ import annotations

import codecs
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolmend._histories.failure import StoredHistoryError
from toolmend._histories.pieces import read_pieces

HISTORY = b'[{"role": "user", "content": "hi"}]'
BODY = b'{"messages": []}'
SPREAD = b'{\n  "messages": [\n    {"role": "user"}\n  ]\n}'


def pieces_of(data: bytes):
    return list(read_pieces(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (HISTORY, [(1, HISTORY)]),
        (HISTORY + b"\n", [(1, HISTORY)]),
        (HISTORY + b"\n" + BODY, [(1, HISTORY), (2, BODY)]),
        (HISTORY + b"\r\n" + BODY + b"\r\n", [(1, HISTORY), (2, BODY)]),
        (HISTORY + b"\n\n \n" + BODY + b"\n", [(1, HISTORY), (4, BODY)]),
        (b"\n\n" + HISTORY + b"\n", [(3, HISTORY)]),
        (codecs.BOM_UTF8 + HISTORY + b"\n", [(1, HISTORY)]),
        (SPREAD, [(1, SPREAD)]),
        (SPREAD + b"\n\n", [(1, SPREAD)]),
        (codecs.BOM_UTF8 + SPREAD, [(1, SPREAD)]),
        (b"\n" + SPREAD, [(2, SPREAD)]),
        (b'[\n{"role": "user"}\n]\n', [(1, b'[\n{"role": "user"}\n]')]),
        (b"[\n" + BODY + b",\n" + BODY + b"\n]", [(1, b"[\n" + BODY + b",\n" + BODY + b"\n]")]),
        # broken first lines
        (b'{"messages": [\n' + HISTORY + b"\n", [(1, b'{"messages": ['), (2, HISTORY)]),
        (
            b"oops\n" + BODY + b"\n" + HISTORY + b"\nx\n",
            [(1, b"oops"), (2, BODY), (3, HISTORY), (4, b"x")],
        ),
        (b"oops\nx\n" + BODY + b"\n" + BODY, [(1, b"oops"), (2, b"x"), (3, BODY), (4, BODY)]),
        (b'{"messages": [\n', [(1, b'{"messages": [')]),
        (b"[" * 50_000 + b"\n" + BODY, [(1, b"[" * 50_000), (2, BODY)]),
        (b"9" * 5_000 + b"\n" + BODY, [(1, b"9" * 5_000), (2, BODY)]),
        (b'"\xe9"\n' + BODY, [(1, b'"\xe9"'), (2, BODY)]),
    ],
    ids=range(20),
)
def test_a_file_is_one_text_or_one_per_line(data, expected):
    pieces = pieces_of(data)

    assert [(piece.line, piece.body) for piece in pieces if piece.body] == expected
    assert b"".join(piece.raw for piece in pieces) == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (codecs.BOM_UTF8, "empty"),
        ("[]".encode("utf-16"), "UTF-16, not UTF-8; convert it"),
        (codecs.BOM_UTF16_BE + "[\n]".encode("utf-16-be"), "UTF-16"),
        ("[]\n[]".encode("utf-32"), "UTF-32"),
        ("[]\n".encode("utf-16-le"), "UTF-16 without a mark"),
        ("[]\n".encode("utf-32-le"), "UTF-32 without a mark"),
        (b"\x1f\x8b\x08\x00abc\ndef", "gzip; unpack it first"),
    ],
    ids=["empty", "blank", "mark", "utf16", "utf16be", "utf32", "bare16", "bare32", "gzip"],
)
def test_a_file_that_cannot_be_read_says_why(data, words):
    first, *others = pieces_of(data)

    with pytest.raises(StoredHistoryError, match=words):
        _ = first.text
    assert not any(piece.body or piece.trouble for piece in others)
    assert first.raw + b"".join(piece.raw for piece in others) == data


def test_a_line_in_another_encoding_is_named():
    [_, piece] = pieces_of(HISTORY + b'\n["caf\xe9"]\n')

    with pytest.raises(StoredHistoryError, match="not UTF-8: 0xe9 is byte 6 of the line") as caught:
        _ = piece.text
    assert caught.value.line == 1


def test_every_byte_is_reported_as_read():
    data = (HISTORY + b"\n") * 50_000
    amounts = []

    for _ in read_pieces(io.BytesIO(data), amounts.append):
        pass

    assert sum(amounts) == len(data)
    assert len(amounts) > 1


@given(
    st.lists(
        st.one_of(st.binary(max_size=8), st.sampled_from([HISTORY, BODY, b"[", b"{", b"]", b""])),
        max_size=30,
    ),
    st.sampled_from([b"\n", b"\r\n", b",\n"]),
)
def test_the_pieces_are_the_whole_file(parts, joint):
    data = joint.join(parts)

    assert b"".join(piece.raw for piece in pieces_of(data)) == data


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner), max_leaves=20))
def test_a_spread_text_is_one_piece(value):
    data = json.dumps([value, {}], indent=1, ensure_ascii=False).encode("utf-8", "replace")

    assert [piece.body for piece in pieces_of(data) if piece.body] == [data]
