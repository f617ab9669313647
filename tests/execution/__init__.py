"""Guarded tools."""

from __future__ import annotations
