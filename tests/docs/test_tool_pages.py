"""The pages about failing tools explain every error type there is."""

from __future__ import annotations

from docs.tool_pages import WHAT, retries_page, texts_page
from toolmend.execution.error_types import MEANINGS
from toolmend.execution.known_errors import BY_CLASS
from toolmend.telemetry import names


def test_every_error_type_is_explained() -> None:
    assert tuple(WHAT) == tuple(MEANINGS) == names.ERROR_TYPES
    assert all(f"| `{kind}` |" in retries_page() for kind in MEANINGS)
    # A call of a process that died gets its result from the repair, later.
    assert all(f"| `{kind}` |" in texts_page() for kind in MEANINGS if kind != "crashed")


def test_every_known_exception_is_listed() -> None:
    page = retries_page()

    assert all(f"`{name.removeprefix('builtins.')}`" in page for name in BY_CLASS)
