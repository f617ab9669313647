"""The demo: a small agent whose tools fail in phases, on a model that refuses broken histories."""

from __future__ import annotations
