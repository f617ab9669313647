"""Damage: what crashes, trims, retries and careless code do to a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.formats.case_files import SHIPPED
from tests.property.outline import (
    ANTHROPIC,
    BEDROCK,
    FAMILIES,
    GEMINI,
    GEMINI_NAMES,
    HOSTED,
    IDS,
    RESPONSES,
    RESULTS_IN_USER_TURN,
    WITHOUT_SYSTEM,
    Builder,
    Item,
    Part,
    chance,
    pick,
)

COMPACTED = (
    "The result of this tool call was summarised to save space.",
    "为节省上下文，该工具结果已被摘要。",
)
OWN_PLACEHOLDER = "(no result)"
PLACEHOLDERS = (*sorted(SHIPPED), *COMPACTED, OWN_PLACEHOLDER)
BAD_IDS = (None, "", "  ", " a", "b\n", "bad id!", "bad:id!", "x" * 70, 7)
BAD_ARGUMENTS = ('{"path": "/tm', "", "[]", "null", "nonsense", None, 3, {"n": 1}, '{"n": 1}')
BAD_NAMES = ("", None, "  ")


class Damage:
    """Damages one outline in place, one step at a time."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.choices = builder.choices
        self.format = builder.format
        self.items = builder.items

    def step(self) -> None:
        steps = STEPS + OWN_STEPS.get(self.format, ())
        pick(self.choices, steps)(self)

    def delete_result(self) -> None:
        found = self._some("result")
        if found is not None:
            self._take_out(*found)

    def duplicate_result(self) -> None:
        found = self._some("result")
        if found is not None:
            original = self.items[found[0]].parts[found[1]]
            mark = original.mark if chance(self.choices, 3) else self.builder.mark("result")
            copy = replace(original, mark=mark)
            if chance(self.choices, 2):
                self._put_anywhere(copy)
            else:
                self._put_behind(found[0], copy)

    def move_result(self) -> None:
        found = self._some("result")
        if found is not None:
            self._put_anywhere(self._take_out(*found))

    def swap_results(self) -> None:
        one, two = self._some("result"), self._some("result")
        if one is not None and two is not None:
            first, second = self._part(one), self._part(two)
            first.id, second.id = second.id, first.id

    def cut_head(self) -> None:
        del self.items[: 1 + self.choices.below(4)]

    def delete_item(self) -> None:
        if self.items:
            del self.items[self.choices.below(len(self.items))]

    def move_item(self) -> None:
        if self.items:
            item = self.items.pop(self.choices.below(len(self.items)))
            self.items.insert(self._gap(), item)

    def duplicate_call(self) -> None:
        found = self._some("call")
        if found is None:
            return
        item = self.items[found[0]]
        copy = replace(item.parts[found[1]])
        if chance(self.choices, 2):
            number = self.builder.mark("tool").replace("-", "_")
            if self.format == GEMINI:
                copy.mark = number
            else:
                copy.name = number
        item.parts.insert(found[1] + 1, copy)

    def delete_call(self) -> None:
        found = self._some("call")
        if found is not None:
            self._take_out(*found)

    def change_call_id(self) -> None:
        found = self._some("call")
        if found is None:
            return
        call = self._part(found)
        old, new = call.id, self._other_id()
        call.id = new
        if chance(self.choices, 2):
            for item in self.items[found[0] + 1 :]:
                for part in item.parts:
                    if part.kind == "result" and part.id == old:
                        part.id = new
                        return

    def change_result_id(self) -> None:
        found = self._some("result")
        if found is not None:
            part = self._part(found)
            is_padded = isinstance(part.id, str) and chance(self.choices, 3)
            part.id = f" {part.id} " if is_padded else self._other_id()

    def break_arguments(self) -> None:
        found = self._some("call")
        if found is not None:
            self._part(found).arguments = pick(self.choices, BAD_ARGUMENTS)
            self._part(found).style = 0

    def blank_name(self) -> None:
        found = self._some("call")
        if found is not None and chance(self.choices, 2):
            self._part(found).name = pick(self.choices, BAD_NAMES)

    def blank_text(self) -> None:
        found = self._some("text")
        if found is not None:
            self._part(found).mark = pick(self.choices, ("", "  ", "\n"))

    def add_blank_text(self) -> None:
        if self.items:
            item = pick(self.choices, self.items)
            if item.role != "tool":
                item.parts.insert(self.choices.below(len(item.parts) + 1), Part("text", mark=""))

    def empty_item(self) -> None:
        item = self.builder.item(self._role(), [])
        item.has_call_list = chance(self.choices, 2)
        self.items.insert(self._gap(), item)

    def _role(self) -> str:
        roles = ("user", "assistant", "system")
        return pick(self.choices, roles[:2] if self.format in WITHOUT_SYSTEM else roles)

    def add_call_list(self) -> None:
        speakers = [item for item in self.items if item.role == "assistant"]
        if speakers:
            pick(self.choices, speakers).has_call_list = True

    def insert_text(self) -> None:
        role = self._role()
        self.items.insert(self._gap(), self.builder.item(role, [self.builder.text(role)]))

    def insert_placeholder(self) -> None:
        found = self._some("call")
        call_id = self._part(found).id if found is not None else pick(self.choices, IDS)
        text = pick(self.choices, PLACEHOLDERS)
        part = Part("result", id=call_id, mark=text, style=0)
        if found is not None:
            part.name, part.family = self._part(found).name, self._part(found).family
        if found is not None and chance(self.choices, 2):
            self._put_behind(found[0], part)
        else:
            self._put_anywhere(part)

    def replace_by_placeholder(self) -> None:
        found = self._some("result")
        if found is not None:
            part = self._part(found)
            part.mark, part.style = pick(self.choices, PLACEHOLDERS), 0

    def insert_orphan(self) -> None:
        self._put_anywhere(self.builder.result(pick(self.choices, (*IDS, "zzz"))))

    def insert_unknown_role(self) -> None:
        if chance(self.choices, 3):
            item = Item("moderator", [Part("text", mark=self.builder.mark("assistant"))])
            self.items.insert(self._gap(), item)

    def insert_thinking(self) -> None:
        if self.items:
            item = pick(self.choices, self.items)
            if item.role == "assistant":
                part = Part("thinking", mark=self.builder.mark("thinking"))
                item.parts.insert(self.choices.below(len(item.parts) + 1), part)

    def delete_server_part(self) -> None:
        found = self._some("server_result") or self._some("server_call")
        if found is not None:
            self._take_out(*found)

    def move_server_result(self) -> None:
        found = self._some("server_result")
        if found is not None:
            part = self._take_out(*found)
            speakers = [item for item in self.items if item.parts]
            if speakers:
                parts = pick(self.choices, speakers).parts
                parts.insert(self.choices.below(len(parts) + 1), part)

    def duplicate_server_part(self) -> None:
        found = self._some(pick(self.choices, ("server_result", "server_call")))
        if found is not None:
            copy = replace(self._part(found))
            if copy.kind == "server_result":
                copy.mark = self.builder.mark("result")
            speakers = [item for item in self.items if item.parts]
            parts = pick(self.choices, speakers).parts
            parts.insert(self.choices.below(len(parts) + 1), copy)

    def change_server_id(self) -> None:
        found = self._some(pick(self.choices, ("server_result", "server_call")))
        if found is not None:
            self._part(found).id = pick(self.choices, ("srv_1", "srv_2", "a", "", None, " srv_1"))

    def insert_server_call(self) -> None:
        speakers = [item for item in self.items if item.role == "assistant"]
        if speakers:
            parts = pick(self.choices, speakers).parts
            number = self.choices.below(3)
            name = pick(self.choices, ("web_search", "mcp", "future_tool", "tool_search_regex"))
            call = self.builder.server_call(f"srv_{number}", name)
            parts.insert(self.choices.below(len(parts) + 1), call)

    def insert_caller(self) -> None:
        calls = [part for item in self.items for part in item.parts if part.kind == "call"]
        if calls:
            pick(self.choices, calls).style = 9

    def insert_reasoning(self) -> None:
        item = Item("assistant", [Part("thinking", mark=self.builder.mark("thinking"))])
        self.items.insert(self._gap(), item)

    def delete_reasoning(self) -> None:
        found = self._some("thinking")
        if found is not None:
            self._take_out(*found)

    def insert_hosted(self) -> None:
        if chance(self.choices, 3):
            part = Part("approval")
        else:
            part = Part("hosted", name=pick(self.choices, HOSTED))
        self.items.insert(self._gap(), Item("assistant", [part]))

    def change_family(self) -> None:
        found = self._some(pick(self.choices, ("call", "result")))
        if found is not None:
            self._part(found).family = pick(self.choices, FAMILIES)

    def break_item_id(self) -> None:
        found = self._some("call")
        if found is not None:
            self._part(found).style = 9

    def lose_id(self) -> None:
        found = self._some(pick(self.choices, ("call", "result", "result")))
        if found is not None:
            self._part(found).id = None

    def change_function(self) -> None:
        found = self._some(pick(self.choices, ("call", "result")))
        if found is not None:
            self._part(found).name = pick(self.choices, GEMINI_NAMES)

    def turn_signature(self) -> None:
        found = self._some("call")
        if found is not None:
            calls = [part for part in self.items[found[0]].parts if part.kind == "call"]
            calls[0].is_signed = not calls[0].is_signed

    def insert_between(self) -> None:
        if self.items:
            item = pick(self.choices, self.items)
            texts = (self.builder.text("user"), Part("image", mark=self.builder.mark("user")))
            part = pick(self.choices, texts)
            item.parts.insert(self.choices.below(len(item.parts) + 1), part)

    def divide_item(self) -> None:
        if self.items:
            at = self.choices.below(len(self.items))
            item = self.items[at]
            cut = self.choices.below(len(item.parts) + 1)
            self.items.insert(at + 1, replace(item, parts=item.parts[cut:]))
            del item.parts[cut:]

    def join_items(self) -> None:
        pairs = [
            at
            for at in range(len(self.items) - 1)
            if self.items[at].role == self.items[at + 1].role
        ]
        if pairs:
            at = pick(self.choices, pairs)
            self.items[at].parts += self.items.pop(at + 1).parts

    def insert_mark(self) -> None:
        if self.items:
            item = pick(self.choices, self.items)
            is_model = item.role == "assistant"
            kind = "served" if is_model and chance(self.choices, 2) else "cache_point"
            part = Part(kind, mark=self.builder.mark("assistant") if kind == "served" else "")
            item.parts.insert(self.choices.below(len(item.parts) + 1), part)

    def _some(self, kind: str) -> tuple[int, int] | None:
        places = [
            (index, slot)
            for index, item in enumerate(self.items)
            for slot, part in enumerate(item.parts)
            if part.kind == kind
        ]
        return pick(self.choices, places) if places else None

    def _part(self, place: tuple[int, int]) -> Part:
        return self.items[place[0]].parts[place[1]]

    def _gap(self) -> int:
        return self.choices.below(len(self.items) + 1)

    def _other_id(self) -> object:
        if chance(self.choices, 2):
            return pick(self.choices, BAD_IDS)
        return pick(self.choices, IDS)

    def _take_out(self, index: int, slot: int) -> Part:
        item = self.items[index]
        part = item.parts.pop(slot)
        if not item.parts and (item.role == "tool" or chance(self.choices, 2)):
            del self.items[index]
        return part

    def _put_behind(self, index: int, part: Part) -> None:
        role = "user" if self.format in RESULTS_IN_USER_TURN else "tool"
        self.items.insert(index + 1, self.builder.item(role, [part]))

    def _put_anywhere(self, part: Part) -> None:
        may_join = self.format in RESULTS_IN_USER_TURN
        if may_join and self.items and chance(self.choices, 2):
            parts = pick(self.choices, self.items).parts
            parts.insert(self.choices.below(len(parts) + 1), part)
        else:
            self._put_behind(self._gap() - 1, part)


STEPS: tuple[Callable[[Damage], None], ...] = (
    Damage.delete_result,
    Damage.delete_result,
    Damage.duplicate_result,
    Damage.move_result,
    Damage.swap_results,
    Damage.cut_head,
    Damage.delete_item,
    Damage.move_item,
    Damage.duplicate_call,
    Damage.delete_call,
    Damage.change_call_id,
    Damage.change_call_id,
    Damage.change_result_id,
    Damage.break_arguments,
    Damage.blank_name,
    Damage.blank_text,
    Damage.add_blank_text,
    Damage.empty_item,
    Damage.add_call_list,
    Damage.insert_text,
    Damage.insert_placeholder,
    Damage.replace_by_placeholder,
    Damage.insert_orphan,
    Damage.insert_unknown_role,
)
OWN_STEPS: dict[str, tuple[Callable[[Damage], None], ...]] = {
    ANTHROPIC: (
        Damage.insert_thinking,
        Damage.delete_server_part,
        Damage.move_server_result,
        Damage.duplicate_server_part,
        Damage.change_server_id,
        Damage.insert_server_call,
        Damage.insert_caller,
    ),
    RESPONSES: (
        Damage.insert_reasoning,
        Damage.insert_reasoning,
        Damage.delete_reasoning,
        Damage.insert_hosted,
        Damage.change_family,
        Damage.break_item_id,
    ),
    GEMINI: (
        Damage.lose_id,
        Damage.change_function,
        Damage.turn_signature,
        Damage.insert_between,
        Damage.insert_thinking,
        Damage.divide_item,
        Damage.divide_item,
        Damage.join_items,
    ),
    BEDROCK: (
        Damage.insert_thinking,
        Damage.insert_between,
        Damage.insert_mark,
        Damage.divide_item,
        Damage.join_items,
    ),
}
