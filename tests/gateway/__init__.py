"""Tests of the callback for LiteLLM, which run in an environment of their own: it pins other people's versions."""
