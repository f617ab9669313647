"""The bodies of the Gemini endpoints, and the real google-genai client against them."""

from __future__ import annotations

import http.client
import json

import pytest
from google import genai
from google.genai import errors, types

from toolmend.testing import Reply, StrictProvider, ToolCall

USER = {"role": "user", "parts": [{"text": "hi"}]}
CALLS = {
    "role": "model",
    "parts": [{"functionCall": {"name": "f", "args": {}, "id": "a"}}],
}
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
PATH = "/v1beta/models/gemini-x:generateContent"
TWO_CALLS = (ToolCall("look", {"city": "Köln", "n": 1}), ToolCall("stop", {}, id="mine"))


def call_twice(body, path):
    return Reply("Calling.", tool_calls=TWO_CALLS)


def post(provider, path, body):
    host, port = provider.gemini_base_url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, response.getheader("content-type"), response.read().decode()
    finally:
        connection.close()


def make_client(provider):
    options = types.HttpOptions(base_url=provider.gemini_base_url)
    return genai.Client(api_key="test", http_options=options)


def ask(client, contents):
    return client.models.generate_content(model="gemini-x", contents=contents)


def test_an_illegal_history_is_refused(strict_provider):
    with make_client(strict_provider) as client, pytest.raises(errors.ClientError) as failure:
        ask(client, [USER, CALLS, USER])
    assert (failure.value.code, failure.value.status) == (400, "INVALID_ARGUMENT")
    assert failure.value.message == COUNT
    assert strict_provider.requests[0].response == {
        "error": {"code": 400, "message": COUNT, "status": "INVALID_ARGUMENT"}
    }
    assert strict_provider.rejected == 1


def test_a_legal_history_is_answered(strict_provider):
    with make_client(strict_provider) as client:
        answer = ask(client, [types.Content(role="user", parts=[types.Part(text="hi")])])
    assert answer.text == "ok"
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    assert answer.usage_metadata.total_token_count > answer.usage_metadata.prompt_token_count
    assert answer.model_version == "gemini-x"
    # The version in the path differs between releases of the client.
    assert strict_provider.requests[0].path.endswith("/models/gemini-x:generateContent")


def check_parts(parts):
    assert [(part.text, part.function_call and part.function_call.name) for part in parts] == [
        ("Calling.", None),
        (None, "look"),
        (None, "stop"),
    ]
    calls = [part.function_call for part in parts[1:]]
    assert [(call.id, call.args) for call in calls] == [
        ("call_000001", {"city": "Köln", "n": 1}),
        ("mine", {}),
    ]


def test_calls_are_answered():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        content = ask(client, [USER]).candidates[0].content
        check_parts(content.parts)
        answers = types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(
                        id=part.function_call.id,
                        name=part.function_call.name,
                        response={"result": "r"},
                    )
                )
                for part in content.parts[1:]
            ],
        )
        ask(client, [USER, content, answers])
        with pytest.raises(errors.ClientError):
            ask(client, [USER, content])
    assert [request.status for request in provider.requests] == [200, 200, 400]


def test_stream():
    with StrictProvider(call_twice) as provider, make_client(provider) as client:
        chunks = list(client.models.generate_content_stream(model="gemini-x", contents=[USER]))
        with pytest.raises(errors.ClientError, match="function response parts"):
            list(client.models.generate_content_stream(model="gemini-x", contents=[USER, CALLS]))
    assert "".join(chunk.text or "" for chunk in chunks) == "Calling."
    names = [call.name for chunk in chunks for call in chunk.function_calls or []]
    assert names == ["look", "stop"]
    assert [bool(chunk.candidates[0].finish_reason) for chunk in chunks].count(True) == 1
    assert chunks[-1].usage_metadata.total_token_count > 0
    assert provider.requests[0].path.endswith("/models/gemini-x:streamGenerateContent")


@pytest.mark.anyio
async def test_async():
    with StrictProvider(call_twice) as provider:
        async with make_client(provider).aio as client:
            answer = await client.models.generate_content(model="gemini-x", contents=[USER])
            check_parts(answer.candidates[0].content.parts)
            stream = await client.models.generate_content_stream(model="g", contents=[USER])
            texts = [chunk.text or "" async for chunk in stream]
            with pytest.raises(errors.ClientError):
                await client.models.generate_content(model="gemini-x", contents=[USER, CALLS])
    assert "".join(texts) == "Calling."


def test_the_stream_on_the_wire(strict_provider):
    path = PATH.replace("generate", "streamGenerate") + "?alt=sse"
    status, kind, text = post(strict_provider, path, {"contents": [USER]})
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
    assert [event["candidates"][0]["content"]["parts"] for event in events] == [
        [{"text": "o"}],
        [{"text": "k"}],
    ]


def test_an_empty_answer():
    with StrictProvider(lambda body, path: Reply("")) as provider:
        for path in (PATH, PATH.replace("generate", "streamGenerate")):
            _, _, text = post(provider, path, {"contents": [USER]})
            answer = json.loads(text.removeprefix("data: "))
            assert answer["candidates"][0]["content"]["parts"] == [{"text": ""}]


PLAIN_FAULTS = [
    ("no contents", {}, "contents is not specified"),
    ("empty contents", {"contents": []}, "contents is not specified"),
    ("contents no list", {"contents": "hi"}, "expected a list"),
    ("content no object", {"contents": [USER, "x"]}, "contents[1]"),
    ("unknown role", {"contents": [{"role": "assistant", "parts": []}]}, "valid role"),
]


@pytest.mark.parametrize(
    ("body", "words"), [pytest.param(*row[1:], id=row[0]) for row in PLAIN_FAULTS]
)
def test_plain_faults_are_no_rejections(strict_provider, body, words):
    status, _, text = post(strict_provider, PATH, body)
    error = json.loads(text)["error"]
    assert (status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert words in error["message"]
    assert strict_provider.rejected == 0


@pytest.mark.parametrize(
    ("status", "name"), [(429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE"), (500, "INTERNAL")]
)
def test_errors_on_demand(status, name):
    with StrictProvider(lambda body, path: Reply(error="odd", status=status)) as provider:
        got, _, text = post(provider, PATH, {"contents": [USER]})
    assert got == status
    assert json.loads(text) == {"error": {"code": status, "message": "odd", "status": name}}


@pytest.mark.parametrize("path", ["/v1beta/models/gemini-x:embedContent", "/v1beta/files"])
def test_unknown_paths(strict_provider, path):
    status, _, text = post(strict_provider, path, {})
    assert (status, json.loads(text)["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("version", ["v1", "v1alpha", "v1beta"])
def test_versions_of_the_path(strict_provider, version):
    path = f"/{version}/models/gemini-x:generateContent"
    assert post(strict_provider, path, {"contents": [USER]})[0] == 200
