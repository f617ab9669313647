"""The endpoint of OpenAI Responses."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from toolmend.testing.endpoint import EVENT_STREAM, Refusal, estimate_tokens
from toolmend.testing.openai_errors import openai_error_body
from toolmend.testing.responses_events import response_events
from toolmend.testing.strict import ANY_HOST, Allowance, Host, Problem, find_problems
from toolmend.testing.strict.plain import as_items, as_mapping, is_blank, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolmend.testing.numbering import Numbering
    from toolmend.testing.replies import JsonObject, Reply

_CREATED = 1_767_225_600  # Answers carry no clock: two runs give the same bytes.
_ROLES = ("user", "assistant", "system", "developer")
# Judged over the stored items too; the texts of these name no place in the list.
_PAIRING = (
    "dangling",
    "orphan",
    "duplicate_result",
    "duplicate_id",
    "wrong_result_type",
    "orphan_reasoning",
)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the server knows of one of its answers."""

    before: str | None
    items: tuple[object, ...]


class ResponsesEndpoint:
    """`POST /v1/responses`, with its own answers kept in memory for `previous_response_id`."""

    asks_model = True
    stream_type = EVENT_STREAM

    def __init__(self, host: Host = ANY_HOST) -> None:
        self._host = host
        self._stored: dict[str, _Stored] = {}

    def schema_fault(self, body: JsonObject) -> Refusal | None:
        """Return what is wrong with model, input, roles or the response to go on from."""
        if is_blank(body.get("model")):
            return _missing("model")
        previous = body.get("previous_response_id")
        if previous is not None and (not isinstance(previous, str) or previous not in self._stored):
            text = f"Previous response with id '{shown(previous)}' not found."
            code = "previous_response_not_found"
            return Refusal(message=text, param="previous_response_id", code=code)
        given = body.get("input")
        if given is None:
            return _missing("input")
        items = [given] if isinstance(given, str) else as_items(given)
        if items is None:
            text = "Invalid type for 'input': expected a string or an array of objects."
            return Refusal(message=text, param="input")
        if isinstance(given, str):
            return None
        return next(filter(None, map(_item_fault, range(len(items)), items)), None)

    def history_problems(self, body: JsonObject) -> list[Problem]:
        """Return the problems of the input, behind what the server knows."""
        items = _input_items(body)
        stored = self._stored_items(body.get("previous_response_id"))
        is_unknown = body.get("conversation") is not None
        if not stored:
            return self._judge(items, server_state=is_unknown)
        whole = [
            replace(problem, index=max(problem.index - len(stored), 0))
            for problem in self._judge([*stored, *items], server_state=is_unknown)
            if problem.kind in _PAIRING
        ]
        alone = self._judge(items, server_state=True)
        return [*whole, *(problem for problem in alone if problem.kind not in _PAIRING)]

    def rejection(self, problem: Problem) -> Refusal:
        """Return the refusal."""
        is_value = problem.param is not None and problem.param != "input"
        code = "invalid_value" if is_value else None
        return Refusal(message=problem.message, param=problem.param, code=code)

    def headers(self, request_id: str, refusal: Refusal | None) -> dict[str, str]:  # noqa: ARG002
        """Return the request id."""
        return {"x-request-id": request_id}

    def error_body(self, refusal: Refusal, request_id: str) -> JsonObject:  # noqa: ARG002
        """Return the error object of OpenAI."""
        return openai_error_body(refusal)

    def wants_stream(self, body: JsonObject) -> bool:
        """Tell what the request says."""
        return body.get("stream") is True

    def answer_body(self, body: JsonObject, reply: Reply, numbering: Numbering) -> JsonObject:
        """Return a `response`, and keep it unless `store` is false."""
        output: list[object] = []
        if reply.text or not reply.tool_calls:
            part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
            message_id = numbering.next("msg")
            message = {"id": message_id, "type": "message", "status": "completed"}
            output.append({**message, "role": "assistant", "content": [part]})
        output.extend(
            {
                "id": numbering.next("fc"),
                "type": "function_call",
                "status": "completed",
                "call_id": call.id or numbering.next("call"),
                "name": call.name,
                "arguments": json.dumps(dict(call.arguments)),
            }
            for call in reply.tool_calls
        )
        response_id = numbering.next("resp")
        previous = cast("str | None", body.get("previous_response_id"))
        if body.get("store") is not False:
            items = (*_input_items(body), *output)
            self._stored[response_id] = _Stored(previous, items)
        prompt, completion = estimate_tokens(body["input"]), estimate_tokens(output)
        return {
            "id": response_id,
            "object": "response",
            "created_at": _CREATED,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata") or {},
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": previous,
            "store": body.get("store") is not False,
            "temperature": 1.0,
            "tool_choice": body.get("tool_choice") or "auto",
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": completion,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": prompt + completion,
            },
        }

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[bytes]:  # noqa: ARG002
        """Yield the events from `response.created` to `response.completed`."""
        return response_events(answer)

    def _judge(self, items: Sequence[object], *, server_state: bool) -> list[Problem]:
        allowance = Allowance(server_state=server_state)
        return find_problems(items, "openai-responses", allowance, self._host)

    def _stored_items(self, response_id: object) -> list[object]:
        """Return the items of an answer and of all before it, in order."""
        chain: list[_Stored] = []
        while isinstance(response_id, str) and response_id in self._stored:
            chain.append(self._stored[response_id])
            response_id = chain[-1].before
        return [item for stored in reversed(chain) for item in stored.items]


def _input_items(body: JsonObject) -> Sequence[object]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return as_items(given) or ()


def _item_fault(index: int, item: object) -> Refusal | None:
    param = f"input[{index}]"
    fields = as_mapping(item)
    if fields is None:
        return Refusal(message=f"Invalid type for '{param}': expected an object.", param=param)
    kind, role = fields.get("type"), fields.get("role")
    if kind is not None and is_blank(kind):
        return Refusal(message=f"Invalid value: '{shown(kind)}'.", param=f"{param}.type")
    if kind in (None, "message") and (role is not None or "id" not in fields):
        if role in _ROLES:
            return None
        supported = ", ".join(f"'{name}'" for name in _ROLES[:-1]) + f", and '{_ROLES[-1]}'"
        text = f"Invalid value: '{shown(role)}'. Supported values are: {supported}."
        return Refusal(message=text, param=f"{param}.role")
    return None


def _missing(name: str) -> Refusal:
    text = f"Missing required parameter: '{name}'."
    return Refusal(message=text, param=name, code="missing_required_parameter")
