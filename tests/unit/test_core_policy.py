"""A policy is checked when it is built, writes texts by cause, tool and function, and knows them again."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import toolmend
from tests.formats.case_files import SHIPPED
from toolmend import Policy
from toolmend.errors import BrokenHistoryError, PolicyError, ToolmendError
from toolmend.mending.findings import INFERRED_CAUSES
from toolmend.mending.policy import OpenCall

NO_RESULT = (
    "No result was recorded for this tool call. Its outcome is unknown; check before repeating it."
)
CUT_OFF = "This tool call was cut off and did not run."
NO_RESULT_ZH = "该工具调用没有结果记录，执行结果未知；重复执行前请先检查。"
CUT_OFF_ZH = "该工具调用被截断，未执行。"
COMPACTED = "The result of this tool call was summarised to save space."
COMPACTED_ZH = "为节省上下文，该工具结果已被摘要。"
USER = {"role": "user", "content": "hello"}


def open_call(name: str = "look_up", cause: Any = "interrupted", id: str | None = "a") -> OpenCall:
    return OpenCall(name=name, id=id, arguments="{}", cause=cause)


def speaking(call: OpenCall) -> str:
    return f"{call.name} did not answer"


def history(*results: str, arguments: str = "{}") -> list[Any]:
    function = {"name": "look_up", "arguments": arguments}
    call = {"id": "a", "type": "function", "function": function}
    told = [{"role": "tool", "tool_call_id": "a", "content": text} for text in results]
    return [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, *told, USER]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dangling": "ignore"}, "dangling must be one of 'patch', 'drop'"),
        ({"dangling": None}, "dangling must be one of"),
        ({"orphans": "patch"}, "orphans must be one of 'drop', 'keep'"),
        ({"trailing": "drop"}, "trailing must be one of 'patch', 'leave'"),
        ({"language": "fr"}, "language must be one of 'en', 'zh'"),
        ({"server_state": "yes"}, "server_state must be one of None, True, False"),
        ({"mode": "quiet"}, "mode must be one of 'repair', 'observe', 'raise'"),
        ({"in_flight": "call_1"}, "in_flight must be a collection of strings"),
        ({"in_flight": [1]}, "in_flight must be a collection of strings"),
        ({"placeholder_texts": "old"}, "wrap a single one in a list"),
        ({"placeholder_texts": (None,)}, "placeholder_texts must be a collection of strings"),
        ({"placeholder": 7}, "placeholder must be a text, a mapping .* got int"),
        ({"placeholder": ""}, "must not be empty"),
        ({"placeholder": " \n"}, "must not be empty"),
        ({"placeholder": "{tool}"}, r"found \{tool\}"),
        ({"placeholder": "{}"}, r"found \{\}"),
        ({"placeholder": "{0}"}, r"found \{0\}"),
        ({"placeholder": "{tool_name.__class__}"}, "as they are"),
        ({"placeholder": "{cause!r}"}, "as they are"),
        ({"placeholder": "{call_id:>10}"}, "as they are"),
        ({"placeholder": "{tool_name"}, "not readable"),
        ({"placeholder": "a } b"}, "not readable"),
        ({"placeholder": {"look_up": "{nope}"}}, r"found \{nope\}"),
        ({"placeholder": {"look_up": ""}}, "must not be empty"),
        ({"placeholder": {"look_up": None}}, "use strings for both"),
        ({"placeholder": {7: "text"}}, "use strings for both"),
    ],
    ids=repr,
)
def test_a_value_that_cannot_work_is_refused_when_the_policy_is_built(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError, match=message) as raised:
        Policy(**fields)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, ToolmendError)
    assert "\n" not in str(raised.value)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="dangly"):
        Policy(dangly="patch")  # type: ignore[call-arg]


def test_fields_are_given_by_name_and_never_change() -> None:
    with pytest.raises(TypeError):
        Policy("patch")  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Policy().dangling = "drop"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({}, {}),
        ({"in_flight": ["a", "b"]}, {"in_flight": {"b", "a"}}),
        ({"placeholder_texts": ["old"]}, {"placeholder_texts": ("old",)}),
        ({"placeholder": {"a": "x", "*": "y"}}, {"placeholder": {"*": "y", "a": "x"}}),
        ({"placeholder": speaking}, {"placeholder": speaking}),
    ],
    ids=["defaults", "in-flight", "texts", "mapping", "function"],
)
def test_equal_policies_have_equal_hashes(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert Policy(**one) == Policy(**two)
    assert len({Policy(**one), Policy(**two)}) == 1


def test_a_mapping_that_changes_later_does_not_change_the_policy() -> None:
    texts = {"look_up": "first"}
    policy = Policy(placeholder=texts)
    texts["look_up"] = "second"
    assert policy.text_for(open_call()) == "first"


@pytest.mark.parametrize(
    ("fields", "call", "text"),
    [
        ({}, open_call(), NO_RESULT),
        ({}, open_call(cause="in_flight"), NO_RESULT),
        ({}, open_call(cause="invalid_arguments"), CUT_OFF),
        ({"language": "zh"}, open_call(), NO_RESULT_ZH),
        ({"language": "zh"}, open_call(cause="invalid_arguments"), CUT_OFF_ZH),
        ({"placeholder": "no answer"}, open_call(cause="invalid_arguments"), "no answer"),
        (
            {"placeholder": "{tool_name}/{call_id}/{cause}/{{}}"},
            open_call(),
            "look_up/a/interrupted/{}",
        ),
        ({"placeholder": "{call_id}!"}, open_call(id=None), "!"),
        ({"placeholder": {"look_up": "mine", "*": "rest"}}, open_call(), "mine"),
        ({"placeholder": {"look_up": "mine", "*": "rest"}}, open_call("other"), "rest"),
        ({"placeholder": {"look_up": "mine"}}, open_call("other"), NO_RESULT),
        ({"placeholder": {"*": "{tool_name}"}}, open_call("{cause}"), "{cause}"),
        ({"placeholder": speaking}, open_call("other"), "other did not answer"),
    ],
)
def test_the_text_follows_cause_tool_and_function(
    fields: dict[str, Any], call: OpenCall, text: str
) -> None:
    assert Policy(**fields).text_for(call) == text


@pytest.mark.parametrize("answer", [None, "", "  ", 7, b"text"])
def test_a_function_that_gives_no_text_is_refused_when_it_does(answer: Any) -> None:
    policy = Policy(placeholder=lambda call: answer)
    with pytest.raises(PolicyError, match="must return a text"):
        toolmend.repair(history(), policy=policy)


@pytest.mark.parametrize("answer", [None, "keep", True])
def test_a_function_that_makes_no_choice_is_refused_when_it_does(answer: Any) -> None:
    policy = Policy(dangling=lambda call: answer)
    with pytest.raises(PolicyError, match="dangling function returns must be one of"):
        toolmend.repair(history(), policy=policy)


@pytest.mark.parametrize("text", [*sorted(SHIPPED), COMPACTED, COMPACTED_ZH])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_shipped_text_is_known_in_any_language(text: str, language: Any) -> None:
    assert Policy(language=language).is_placeholder(text, None)
    assert Policy(language=language, placeholder="other").is_placeholder(text, open_call())


@pytest.mark.parametrize("text", ["", "Done.", NO_RESULT + " ", NO_RESULT.upper(), "null", "{}"])
def test_any_other_text_is_real(text: str) -> None:
    assert not Policy().is_placeholder(text, open_call())


@pytest.mark.parametrize("cause", INFERRED_CAUSES)
@pytest.mark.parametrize(
    "placeholder",
    [
        "{tool_name} {cause}",
        {"look_up": "{call_id} {cause}"},
        lambda call: f"{call.name} {call.cause}",
    ],
    ids=["template", "mapping", "function"],
)
def test_own_texts_are_known_for_every_cause(placeholder: Any, cause: Any) -> None:
    policy = Policy(placeholder=placeholder)
    text = policy.text_for(open_call(cause=cause))
    assert policy.is_placeholder(text, open_call(cause="unknown"))
    assert not policy.is_placeholder(text, open_call(id="b", name="other"))
    assert not Policy().is_placeholder(text, open_call())


@pytest.mark.parametrize(
    ("policy", "stored"),
    [
        (Policy(), NO_RESULT),
        (Policy(), CUT_OFF_ZH),
        (Policy(), COMPACTED),
        (Policy(placeholder_texts=["(missing)"]), "(missing)"),
        (Policy(placeholder="{tool_name} {cause}"), "look_up interrupted"),
        (Policy(placeholder=speaking), "look_up did not answer"),
    ],
    ids=["shipped", "shipped-zh", "compacted", "told", "template", "function"],
)
def test_a_real_result_takes_the_place_of_a_stored_placeholder(policy: Policy, stored: str) -> None:
    messages = history(stored, "real")
    outcome = toolmend.repair(messages, policy=policy)
    assert [finding.kind for finding in outcome.findings] == ["superseded_placeholder"]
    assert list(outcome.messages) == [*messages[:2], *messages[3:]]


def test_a_text_nobody_knows_is_the_first_real_result() -> None:
    messages = history("(missing)", "real")
    outcome = toolmend.repair(messages)
    assert [finding.kind for finding in outcome.findings] == ["duplicate_result"]
    assert outcome.messages[2] is messages[2]


def test_a_placeholder_follows_the_cause_that_the_history_tells() -> None:
    assert toolmend.repair(history()).messages[2]["content"] == NO_RESULT
    outcome = toolmend.repair(history(arguments='{"path": "/tm'))
    assert outcome.messages[2]["content"] == CUT_OFF
    assert outcome.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_dangling_function_sees_each_open_call_and_chooses() -> None:
    seen: list[OpenCall] = []

    def choose(call: OpenCall) -> Any:
        seen.append(call)
        return "drop"

    outcome = toolmend.repair(history(), policy=Policy(dangling=choose))
    assert set(seen) == {open_call()}
    assert list(outcome.messages) == [USER, USER]


def test_observe_reports_and_changes_nothing() -> None:
    messages = history()
    outcome = toolmend.repair(messages, policy=Policy(mode="observe"))
    assert outcome.messages is messages
    assert not outcome.changed
    assert outcome.edits == ()
    assert [finding.action for finding in outcome.findings] == ["observed"]
    assert outcome.counts["patched"] == 1


def test_raise_tells_what_is_wrong() -> None:
    with pytest.raises(BrokenHistoryError, match="dangling_call") as raised:
        toolmend.repair(history(), policy=Policy(mode="raise"))
    assert raised.value.findings == toolmend.check(history())


@pytest.mark.parametrize("mode", ["observe", "raise"])
def test_what_is_left_is_no_repair_in_any_mode(mode: Any) -> None:
    messages = history()[:2]
    policy = Policy(mode=mode, trailing="leave")
    outcome = toolmend.repair(messages, policy=policy)
    assert outcome.messages is messages
    assert [finding.action for finding in outcome.findings] == ["left"]


@pytest.mark.parametrize(
    ("fields", "actions"),
    [
        ({"in_flight": ["a"]}, ["left"]),
        ({"in_flight": lambda call_id: call_id == "a"}, ["left"]),
        ({"in_flight": ["a"], "dangling": "drop"}, ["left"]),
        ({"in_flight": ["b"]}, ["patched"]),
        ({"trailing": "leave"}, ["left"]),
        ({"trailing": "leave", "dangling": "drop"}, ["left"]),
        ({"dangling": "drop"}, ["dropped"]),
    ],
)
def test_a_call_at_the_end_is_left_where_it_may_still_run(
    fields: dict[str, Any], actions: list[str]
) -> None:
    found = toolmend.check(history()[:2], policy=Policy(**fields))
    assert [finding.action for finding in found] == actions


def test_a_running_call_that_is_not_at_the_end_is_patched_and_never_dropped() -> None:
    found = toolmend.check(history(), policy=Policy(in_flight=["a"], dangling="drop"))
    assert [(finding.action, finding.cause) for finding in found] == [("patched", "in_flight")]


def test_a_stored_placeholder_of_a_running_call_moves_to_its_place() -> None:
    messages = history()
    messages.append({"role": "tool", "tool_call_id": "a", "content": NO_RESULT})
    outcome = toolmend.repair(messages, policy=Policy(in_flight=["a"], dangling="drop"))
    assert list(outcome.messages) == [*messages[:2], messages[3], messages[2]]


def test_an_orphan_without_an_id_leaves_even_where_orphans_stay() -> None:
    messages = [USER]
    messages += [{"role": "tool", "tool_call_id": key, "content": "x"} for key in ("z", "", None)]
    outcome = toolmend.repair(messages, policy=Policy(orphans="keep"))
    assert [finding.action for finding in outcome.findings] == ["left", "removed", "removed"]
    assert list(outcome.messages) == messages[:2]
