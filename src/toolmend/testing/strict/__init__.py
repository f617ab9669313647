"""The rules of the providers, written down a second time: no code of the repair is used here."""

from __future__ import annotations

from toolmend.testing.strict.allowance import Allowance
from toolmend.testing.strict.problem import Problem
from toolmend.testing.strict.recogniser import Format, recognise
from toolmend.testing.strict.verdict import find_problems

__all__ = ["Allowance", "Format", "Problem", "find_problems", "recognise"]
