"""The rules of the providers, written down a second time: no code of the repair is used here."""

from __future__ import annotations

from toolmend.testing.strict.allowance import Allowance
from toolmend.testing.strict.host import ANY_HOST, Host, Profile
from toolmend.testing.strict.problem import Problem
from toolmend.testing.strict.recogniser import Format, recognise
from toolmend.testing.strict.verdict import find_problems

__all__ = [
    "ANY_HOST",
    "Allowance",
    "Format",
    "Host",
    "Problem",
    "Profile",
    "find_problems",
    "recognise",
]
