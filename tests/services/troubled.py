"""An application for the stack: it only observes, so its provider refuses a history; and it meets a fault of toolmend."""

from __future__ import annotations

import sys

import structlog
from openai import BadRequestError, OpenAI

import toolmend
from toolmend.testing import StrictProvider

HISTORY = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "crm", "arguments": "{}"}}
        ],
    },
    {"role": "user", "content": "well?"},
]


def main(endpoint):
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with (
        toolmend.setup_telemetry("troubled", endpoint=endpoint),
        StrictProvider() as provider,
        OpenAI(base_url=provider.openai_base_url, api_key="x", max_retries=0) as client,
    ):
        watch = toolmend.Policy(mode="observe")
        ask = toolmend.model_call(client.chat.completions.create, policy=watch, thread="t-1")
        try:
            ask(model="gpt-troubled", messages=HISTORY)
        except BadRequestError:
            pass
        else:
            raise AssertionError("the provider took a broken history")

        nameless = toolmend.model_call(thread=lambda arguments: arguments["nobody"])
        nameless(lambda messages: messages)(messages=HISTORY[:1])


if __name__ == "__main__":
    main(sys.argv[1])
