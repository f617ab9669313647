"""The opening: one broken history, sent as it is and sent through toolmend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import toolmend
from toolmend._demo.plain_http import RequestRefusedError, post
from toolmend.telemetry.signals import suppressed
from toolmend.testing import Reply, StrictProvider

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODEL = "gpt-demo"
HISTORY: tuple[dict[str, object], ...] = (
    {"role": "user", "content": "A room in Lisbon, please."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "find_room", "arguments": '{"city": "Lisbon"}'},
            }
        ],
    },
    {"role": "user", "content": "Hello? Are you still there?"},
)
"""What is stored after a tool timed out and the user wrote again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What came of it.

    Attributes:
        status: HTTP status of the answer to the broken history.
        refusal: what the provider said about it.
        placeholder: the result that toolmend wrote into the history.
        answer: what the model answered to the mended history.
    """

    status: int
    refusal: str
    placeholder: str
    answer: str


def play_opening() -> Opening:
    """Send the broken history twice; nothing of it is counted, traced or logged.

    Raises:
        RuntimeError: the broken history was accepted.
    """
    with StrictProvider(lambda _body, _path: Reply("Yes! Shall I look again?")) as provider:
        url = f"{provider.openai_base_url}/chat/completions"

        def ask(messages: Sequence[object], model: str) -> Any:
            return post(url, {"model": model, "messages": list(messages)})

        try:
            ask(HISTORY, _MODEL)
        except RequestRefusedError as error:
            refused = error
        else:
            raise RuntimeError("the provider accepted a broken history")
        with suppressed():
            toolmend.model_call(ask)(list(HISTORY), _MODEL)
        _, accepted = provider.requests
    sent: Any = accepted.body["messages"]
    answered: Any = accepted.response["choices"]
    return Opening(
        status=refused.status_code,
        refusal=str(refused),
        placeholder=sent[2]["content"],
        answer=answered[0]["message"]["content"],
    )
