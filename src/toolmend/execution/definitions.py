"""Definitions: a tool as a request of each format offers it."""

from __future__ import annotations

from typing import Any


def definition(
    format: str, name: str, description: str, schema: dict[str, object]
) -> dict[str, Any]:
    """Return the definition of a tool.

    Args:
        format: name of the format.
        name: of the tool.
        description: what it does.
        schema: JSON Schema of its arguments.
    """
    match format:
        case "anthropic":
            return {"name": name, "description": description, "input_schema": schema}
        case "gemini":
            return {"name": name, "description": description, "parametersJsonSchema": schema}
        case "bedrock":
            spec: dict[str, object] = {"name": name, "inputSchema": {"json": schema}}
            if description:  # it may not be empty
                spec["description"] = description
            return {"toolSpec": spec}
        case "openai-responses":
            return {
                "type": "function",
                "name": name,
                "description": description,
                "parameters": schema,
                "strict": False,
            }
        case _:
            function = {"name": name, "description": description, "parameters": schema}
            return {"type": "function", "function": function}
