"""The texts that toolmend writes into histories; each claims neither success nor that the user cancelled."""

from __future__ import annotations

from typing import Final, Literal

Language = Literal["en", "zh"]

NO_RESULT: Final[dict[Language, str]] = {
    "en": (
        "No result was recorded for this tool call. "
        "Its outcome is unknown; check before repeating it."
    ),
    "zh": "该工具调用没有结果记录，执行结果未知；重复执行前请先检查。",
}
CUT_OFF: Final[dict[Language, str]] = {
    "en": "This tool call was cut off and did not run.",
    "zh": "该工具调用被截断，未执行。",
}
COMPACTED: Final[dict[Language, str]] = {
    "en": "The result of this tool call was summarised to save space.",
    "zh": "为节省上下文，该工具结果已被摘要。",
}
CANCELLED: Final[dict[Language, str]] = {
    "en": "This tool call was cancelled before a result.",
    "zh": "该工具调用在得到结果前被取消。",
}
CANCELLED_MIDWAY: Final[dict[Language, str]] = {
    "en": (
        "This tool call was cancelled before a result. It may have happened all the same: "
        "do not repeat it, check first."
    ),
    "zh": "该工具调用在得到结果前被取消，但可能已经执行：请勿重复执行，请先检查。",
}
HEAD_STUB: Final[dict[Language, str]] = {
    "en": "(The beginning of this conversation is not shown.)",
    "zh": "（对话的开头未显示。）",
}
USER_BRIDGE: Final[dict[Language, str]] = {
    "en": "(The conversation continues.)",
    "zh": "（对话继续。）",
}
ASSISTANT_BRIDGE: Final[dict[Language, str]] = {
    "en": "(The tool results are noted.)",
    "zh": "（工具结果已收到。）",
}

SHIPPED: Final = frozenset(
    text
    for texts in (NO_RESULT, CUT_OFF, COMPACTED, CANCELLED, CANCELLED_MIDWAY)
    for text in texts.values()
)
"""Every shipped result text, in any language: how a placeholder that was stored is recognised again."""
