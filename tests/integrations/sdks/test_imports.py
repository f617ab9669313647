"""What toolmend imports: of the SDKs nothing that the application does not import itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

ASK = """
    import openai
    from tests.integrations.sdks.wire import Wire
    from tests.integrations.sdks.histories import broken
    wire = Wire()
    client = openai.OpenAI(
        api_key="test", max_retries=0, http_client=wire.client(openai, is_async=False)
    )
    client.chat.completions.create(model="m", messages=broken("openai-chat"))
    assert wire.statuses == [200], wire.statuses
"""
PROGRAMS = {
    "instrument": """
        import sys, toolmend
        toolmend.instrument()
        found = {"openai", "anthropic", "httpx", "httpx2", "pydantic"} & set(sys.modules)
        assert not found, found
    """,
    "instrumentor": """
        import sys
        from toolmend.integrations.instrumentor import ToolmendInstrumentor, post_instrument
        ToolmendInstrumentor().instrument()
        post_instrument()
        found = {"openai", "anthropic", "httpx", "httpx2", "pydantic"} & set(sys.modules)
        assert not found, found
    """,
    "toolmend-alone": """
        import sys, toolmend
        found = {"wrapt", "opentelemetry.instrumentation"} & set(sys.modules)
        assert not found, found
    """,
    "imported-later": "import toolmend\ntoolmend.instrument()\n" + textwrap.dedent(ASK),
    "imported-before": "import openai, toolmend\ntoolmend.instrument()\n" + textwrap.dedent(ASK),
    "off-and-on-before-the-import": (
        "import toolmend\ntoolmend.instrument()\ntoolmend.uninstrument()\ntoolmend.instrument()\n"
        + textwrap.dedent(ASK)
    ),
    "only-one-sdk": """
        import sys, toolmend
        toolmend.instrument()
        import anthropic
        assert "openai" not in sys.modules
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAMS[name])],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_the_middleware_without_its_sdk_tells_what_to_install() -> None:
    program = """
        import sys
        sys.modules["anthropic"] = None
        try:
            import toolmend.integrations.anthropic
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "pip install 'anthropic>=1'" in done.stdout


@pytest.mark.parametrize("name", ["instrument", "uninstrument"])
def test_without_the_extra_the_name_tells_what_to_install(name: str) -> None:
    program = f"""
        import sys
        sys.modules["wrapt"] = None
        import toolmend
        try:
            toolmend.{name}
        except toolmend.MissingExtraError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "pip install 'toolmend[instrument]'" in done.stdout
