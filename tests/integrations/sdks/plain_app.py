"""An application that knows nothing of toolmend; prints what became of each model call."""

from __future__ import annotations

import sys

import anthropic
import openai

HISTORY = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        ],
    },
    {"role": "user", "content": "next"},
]
BLOCKS = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {}}],
    },
    {"role": "user", "content": "next"},
]


def chat() -> object:
    return openai.OpenAI(max_retries=0).chat.completions.create(model="model-x", messages=HISTORY)


def messages() -> object:
    client = anthropic.Anthropic(max_retries=0)
    return client.messages.create(model="model-x", max_tokens=9, messages=BLOCKS)


for name, ask in (("openai", chat), ("anthropic", messages)):
    try:
        ask()
        answer = "answered"
    except (openai.BadRequestError, anthropic.BadRequestError):
        answer = "refused"
    sys.stdout.write(f"{name} {answer}\n")
