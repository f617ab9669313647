"""Policy: what to do about a broken history."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, Literal, get_args

from toolmend.errors import PolicyError
from toolmend.mending.findings import ALL_CAUSES, INFERRED_CAUSES, Cause
from toolmend.mending.frozen import FrozenMapping
from toolmend.mending.texts import CUT_OFF, NO_RESULT, SHIPPED, Language

Profile = Literal["mistral", "deepseek-thinking", "dashscope", "bedrock-open-weights"]
Mode = Literal["repair", "observe", "raise"]
_Dangling = Literal["patch", "drop"]
MIN_ID_LENGTH: Final = 9
"""Below it, ids made of a digest would meet by chance."""
_TEMPLATE_FIELDS: Final = frozenset({"tool_name", "call_id", "cause"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call without a result, as a function in a policy sees it."""

    name: str
    id: str | None
    arguments: object
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to do about a broken history. Frozen and hashable; checked when it is built.

    Attributes:
        dangling: ``"patch"`` puts a placeholder result in, ``"drop"`` removes the call, a function
            of the ``OpenCall`` chooses for each. A call that cannot be dropped is patched.
        orphans: ``"drop"`` removes results without a call, ``"keep"`` leaves those that have an id.
        trailing: ``"patch"``, or ``"leave"`` for calls in the last batch that may still run.
        in_flight: ids, or a function of the id, of calls that are running elsewhere.
        placeholder: text of placeholders: a template with ``{tool_name}``, ``{call_id}`` and
            ``{cause}``, a mapping of tool name to template (``"*"`` for the rest), or a pure function
            of the ``OpenCall``. None: the shipped text by cause.
        language: of the shipped texts.
        placeholder_texts: more texts that are recognised as placeholders.
        text_from_record: whether a cause that is known from elsewhere (``causes=``) enters the text too;
            then the text depends on more than the history.
        window: only so many messages at the end are looked at, the others pass untouched; more where
            the cut would divide calls from their results, or where messages leave and others come
            into sight. None: all.
        profile: a host with rules of its own: ``"mistral"``, ``"deepseek-thinking"``,
            ``"dashscope"``, ``"bedrock-open-weights"``.
        max_id_len: longer ids are replaced by shorter ones, call and result alike. None: no limit.
        strict_alternation: Anthropic: user messages that answer one batch are joined, for hosts
            that do not join them by themselves.
        server_state: True: earlier messages live on the provider's server, so nothing is removed
            or renamed. None: decided by the call (``model_call``) or by the list.
        mode: ``"repair"``, ``"observe"`` reports and changes nothing, ``"raise"`` raises
            ``BrokenHistoryError``; or a function of the thread, None if there is none, that
            returns one of them.

    Raises:
        PolicyError: a value that cannot work, such as a template with an unknown field.
    """

    dangling: _Dangling | Callable[[OpenCall], _Dangling] = "patch"
    orphans: Literal["drop", "keep"] = "drop"
    trailing: Literal["patch", "leave"] = "patch"
    in_flight: Collection[str] | Callable[[str], bool] = frozenset()
    placeholder: str | Mapping[str, str] | Callable[[OpenCall], str] | None = None
    language: Language = "en"
    placeholder_texts: Collection[str] = ()
    text_from_record: bool = False
    window: int | None = None
    profile: Profile | None = None
    max_id_len: int | None = None
    strict_alternation: bool = False
    server_state: bool | None = None
    mode: Mode | Callable[[str | None], Mode] = "repair"

    def __post_init__(self) -> None:
        if not callable(self.dangling):
            _one_of("dangling", self.dangling, get_args(_Dangling))
        _one_of("orphans", self.orphans, ("drop", "keep"))
        _one_of("trailing", self.trailing, ("patch", "leave"))
        _one_of("language", self.language, get_args(Language))
        _one_of("server_state", self.server_state, (None, True, False))
        _one_of("text_from_record", self.text_from_record, (True, False))
        _one_of("strict_alternation", self.strict_alternation, (True, False))
        _one_of("profile", self.profile, (None, *get_args(Profile)))
        _at_least("window", self.window, 1)
        _at_least("max_id_len", self.max_id_len, MIN_ID_LENGTH)
        if not callable(self.mode):
            _one_of("mode", self.mode, get_args(Mode))
        if not callable(self.in_flight):
            self._set("in_flight", frozenset(_texts("in_flight", self.in_flight)))
        self._set("placeholder_texts", _texts("placeholder_texts", self.placeholder_texts))
        if isinstance(self.placeholder, str):
            _check_template(self.placeholder)
        elif isinstance(self.placeholder, Mapping):
            for tool, template in self.placeholder.items():
                if not all(isinstance(text, str) for text in (tool, template)):
                    raise PolicyError("placeholder maps tool names to texts; use strings for both")
                _check_template(template)
            self._set("placeholder", FrozenMapping(self.placeholder))
        elif self.placeholder is not None and not callable(self.placeholder):
            raise PolicyError(
                "placeholder must be a text, a mapping of tool name to text, or a function; "
                f"got {type(self.placeholder).__name__}"
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def is_in_flight(self, call_id: str | None) -> bool:
        """Tell whether the call with this id is running elsewhere."""
        if call_id is None:
            return False
        if callable(self.in_flight):
            return bool(self.in_flight(call_id))
        return call_id in self.in_flight

    def mode_for(self, thread: str | None) -> Mode:
        """Return the mode for a thread."""
        if not callable(self.mode):
            return self.mode
        chosen = self.mode(thread)
        _one_of("what the mode function returns", chosen, get_args(Mode))
        return chosen

    @property
    def asks_more(self) -> bool:
        """Whether a history that its format accepts may still need repair."""
        return (
            self.profile in ("mistral", "dashscope")
            or self.max_id_len is not None
            or self.strict_alternation
        )

    def choose(self, call: OpenCall) -> _Dangling:
        """Return what to do about an open call."""
        if not callable(self.dangling):
            return self.dangling
        choice = self.dangling(call)
        _one_of("what the dangling function returns", choice, get_args(_Dangling))
        return choice

    def text_for(self, call: OpenCall) -> str:
        """Return the placeholder text for an open call."""
        if callable(self.placeholder):
            text: object = self.placeholder(call)
            if not isinstance(text, str) or not text.strip():
                raise PolicyError("the placeholder function must return a text that is not empty")
            return text
        template: str | None
        if isinstance(self.placeholder, Mapping):
            template = self.placeholder.get(call.name, self.placeholder.get("*"))
        else:
            template = self.placeholder
        if template is not None:
            return template.format(tool_name=call.name, call_id=call.id or "", cause=call.cause)
        return (CUT_OFF if call.cause == "invalid_arguments" else NO_RESULT)[self.language]

    def is_placeholder(self, text: str, call: OpenCall | None) -> bool:
        """Tell whether a result text is one that a repair wrote, by text alone.

        A function as ``placeholder`` is asked once per inferred cause, so it must be pure.
        """
        if text in SHIPPED or text in self.placeholder_texts:
            return True
        if self.placeholder is None or call is None:
            return False
        return any(
            text
            == self.text_for(
                OpenCall(name=call.name, id=call.id, arguments=call.arguments, cause=cause)
            )
            for cause in (ALL_CAUSES if self.text_from_record else INFERRED_CAUSES)
        )


def _one_of(name: str, value: object, allowed: tuple[Any, ...]) -> None:
    if not any(value is choice or value == choice for choice in allowed):
        raise PolicyError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def _at_least(name: str, value: object, least: int) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_number and value >= least):  # type: ignore[operator]
        raise PolicyError(f"{name} must be a number from {least} up, or None; got {value!r}")


def _texts(name: str, values: object) -> tuple[str, ...]:
    if isinstance(values, Collection) and not isinstance(values, str):
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == len(values):
            return tuple(texts)
    raise PolicyError(f"{name} must be a collection of strings; wrap a single one in a list")


def _check_template(template: str) -> None:
    try:
        fields = [
            (field, spec, conversion)
            for _, field, spec, conversion in Formatter().parse(template)
            if field is not None
        ]
    except ValueError as error:
        raise PolicyError(f"placeholder template is not readable: {error}") from error
    if not template.strip():
        raise PolicyError("placeholder must not be empty; a provider refuses some empty results")
    for field, spec, conversion in fields:
        if field not in _TEMPLATE_FIELDS or spec or conversion:
            raise PolicyError(
                f"placeholder may use {{tool_name}}, {{call_id}} and {{cause}} as they are; "
                f"found {{{field}}}; write a literal brace twice"
            )


DEFAULT_POLICY: Final = Policy()


def checked_policy(policy: Policy | None) -> Policy:
    """Return a policy, the default one where none is given.

    Raises:
        PolicyError: it is something else.
    """
    if policy is None:
        return DEFAULT_POLICY
    if not isinstance(policy, Policy):
        raise PolicyError(f"policy must be a toolmend.Policy; got {type(policy).__name__}")
    return policy
