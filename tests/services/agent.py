"""A small agent, run as a process of its own: its tool times out, and the conversation goes on."""

from __future__ import annotations

import json
import os
import sys

import openai

import toolmend
from toolmend.testing import Reply, StrictProvider, ToolCall


def reply(body, path):
    if body["messages"][-1]["content"] == "What is the weather in Oslo?":
        return Reply(text="", tool_calls=(ToolCall("weather", {"city": "SECRET"}),))
    return Reply(text="Oslo.")


def main():
    orders = json.loads(os.environ["AGENT"])
    toolmend.setup_telemetry(**orders)
    with (
        StrictProvider(reply) as provider,
        openai.OpenAI(base_url=provider.openai_base_url, api_key="test", max_retries=0) as client,
    ):
        create = toolmend.model_call(client.chat.completions.create)
        observe = toolmend.model_call(
            client.chat.completions.create, policy=toolmend.Policy(mode="observe")
        )
        history = [{"role": "user", "content": "What is the weather in Oslo?"}]
        with toolmend.thread("conversation-42"):
            answer = create(model="gpt-x", messages=history)
            history.append(answer.choices[0].message)  # and the tool never answers
            history.append({"role": "user", "content": "What is the capital of Norway?"})
            assert create(model="gpt-x", messages=history).choices[0].message.content == "Oslo."
            try:
                observe(model="gpt-x", messages=history)
            except openai.BadRequestError:
                return
        sys.exit("the provider took a broken history")


main()
