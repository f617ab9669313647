"""What `import toolmend` offers, no more and no less."""

from __future__ import annotations

import inspect
import pkgutil
import typing

import pytest

import toolmend

NAMES = toolmend.__all__


def test_all_is_sorted_and_true() -> None:
    assert sorted(NAMES) == NAMES
    assert all(hasattr(toolmend, name) for name in NAMES)  # some are imported only now
    submodules = {module.name for module in pkgutil.iter_modules(toolmend.__path__)}
    public = {
        name
        for name in vars(toolmend)
        if name.isidentifier()
        and not name.startswith("_")
        and name not in submodules
        and name != "annotations"
    }
    assert public == set(NAMES)
    # A submodule of the same name would hide the function from `import toolmend.name`.
    assert not submodules & set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_documented_and_their_types_can_be_read(name: str) -> None:
    thing = getattr(toolmend, name)
    assert thing.__doc__
    typing.get_type_hints(thing)
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for member in vars(thing).values():
            if inspect.isfunction(member):
                typing.get_type_hints(member)
