"""The callback passes its tests where LiteLLM is, and says what it needs where it is not."""

from __future__ import annotations

import importlib
import re
from importlib.util import find_spec

import pytest

from tests.gateway.environment import run_tests

if find_spec("litellm"):
    pytest.skip("this is the environment", allow_module_level=True)


@pytest.mark.service("litellm")
def test_the_callback_passes_its_tests_in_an_environment_of_its_own():
    done = run_tests()
    assert done.returncode == 0, done.stdout + done.stderr
    [passed] = re.findall(r"^=+ (\d+) passed, 1 skipped in", done.stdout, re.MULTILINE)
    assert int(passed) > 70, done.stdout


def test_litellm_is_asked_for_in_one_line():
    with pytest.raises(ImportError) as caught:
        importlib.import_module("toolmend.integrations.litellm")
    assert str(caught.value) == (
        "toolmend.integrations.litellm needs LiteLLM's proxy: pip install 'litellm[proxy]'"
    )
    assert caught.value.name in {"litellm", "fastapi"}
