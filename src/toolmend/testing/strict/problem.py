"""One reason why a provider refuses a history."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why a provider refuses a history.

    Kinds: `dangling` (a call without result), `orphan` (a result without call), `duplicate_result`,
    `misplaced_result` (behind other blocks of its turn), `missing_id`, `malformed_id`,
    `duplicate_id`, `nameless_call`, `invalid_arguments`, `empty_tool_calls`, `empty_content`,
    `blank_text`, `trailing_thinking`, `misplaced_system`, `invalid_shape` (a call or block that is
    no object); `wrong_result_type` (a result of another family than its call), `orphan_reasoning`,
    `bad_first_turn`, `role_order`, `misplaced_call`, `mixed_result_turn` (results beside what may
    not stand there), `split_results` (one batch answered in several messages), `invalid_result` (in
    a shape that the provider does not take), `wrong_name` (a result that names another function),
    `malformed_name`, `empty_part`, `misplaced_signature`, `missing_reasoning`.

    Attributes:
        kind: One of the kinds above.
        index: Index in the list of the message that is to blame.
        call_ids: Ids of the calls or results concerned, in their order; empty when there are none.
        message: What the provider says. The wording is that of public reports where there is one.
        param: What an OpenAI error body carries as `param`; None for other providers.
    """

    kind: str
    index: int
    call_ids: tuple[str, ...] = ()
    message: str
    param: str | None = None


def invalid_field(
    kind: str, index: int, param: str, expected: str, *, call_id: str | None = None
) -> Problem:
    """Return a problem of one field, as OpenAI words it."""
    return Problem(
        kind=kind,
        index=index,
        call_ids=() if call_id is None else (call_id,),
        message=f"Invalid '{param}': expected {expected}.",
        param=param,
    )
