"""The pytest fixture `strict_provider`: a provider on 127.0.0.1 for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolmend.testing import StrictProvider


@pytest.fixture
def strict_provider() -> Iterator[StrictProvider]:
    """Serve a `StrictProvider` with the default reply for the length of one test."""
    # Loaded by every pytest run of an environment that has toolmend: stay light until it is used.
    from toolmend.testing import StrictProvider  # noqa: PLC0415 - see above

    with StrictProvider() as provider:
        yield provider
