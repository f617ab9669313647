"""A LangChain agent whose model and tools do what a test says, sync and async."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

MODES = ("sync", "async")


class Script(BaseChatModel):
    """Says one thing after the other."""

    replies: list[Any]
    said: int = 0

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop=None, run_manager=None, **kwargs: Any) -> ChatResult:
        reply = self.replies[self.said]
        self.said += 1
        return ChatResult(generations=[ChatGeneration(message=reply)])


def asking(*calls: tuple[str, dict[str, Any]], first: int = 1) -> AIMessage:
    """Return the message of a model that calls tools; ids are call_1, call_2, …."""
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": args, "id": f"call_{number}"}
            for number, (name, args) in enumerate(calls, first)
        ],
    )


@dataclass
class Hang:
    seconds: float


@dataclass
class Body:
    """What a tool does, call by call: return a value, raise an exception, hang; the last one again and again."""

    acts: tuple[Any, ...]
    queries: list[str] = field(default_factory=list)

    def _next(self, query: str) -> Any:
        act = self.acts[min(len(self.queries), len(self.acts) - 1)]
        self.queries.append(query)
        return act

    def sync(self, query: str) -> Any:
        act = self._next(query)
        if isinstance(act, Hang):
            time.sleep(act.seconds)
        return _done(act)

    async def coroutine(self, query: str) -> Any:
        act = self._next(query)
        if isinstance(act, Hang):
            await asyncio.sleep(act.seconds)
        return _done(act)

    def tool(self, name: str = "search", **options: Any) -> StructuredTool:
        return StructuredTool.from_function(
            func=self.sync, coroutine=self.coroutine, name=name, description="Finds.", **options
        )


def _done(act: Any) -> Any:
    if isinstance(act, BaseException):
        raise act
    return act


def invoke(mode: str, runnable: Any, given: Any, config: Any = None) -> Any:
    if mode == "sync":
        return runnable.invoke(given, config)
    return asyncio.run(runnable.ainvoke(given, config))


def run_agent(
    mode: str,
    middleware: Any,
    tools: list[Any],
    *turns: AIMessage,
    config: Any = None,
    checkpointer: Any = None,
) -> list[ToolMessage]:
    """Run an agent until it says that it is done, and return what its tools answered."""
    model = Script(replies=[*turns, AIMessage("done")])
    agent = create_agent(model, tools, middleware=[middleware], checkpointer=checkpointer)
    messages = invoke(mode, agent, {"messages": [HumanMessage("go")]}, config)["messages"]
    assert messages[-1].content == "done"  # whatever the tools did
    return [message for message in messages if isinstance(message, ToolMessage)]
