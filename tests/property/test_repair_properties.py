"""Whatever happened to a history: its repair is legal, loses nothing real, and tells what it did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property import promises
from tests.property.outline import FORMATS
from tests.property.strategies import damaged_histories, legal_histories

every_format = pytest.mark.parametrize("format", FORMATS)


@every_format
@given(data=st.data())
def test_a_damaged_history_is_mended(format: str, data: st.DataObject) -> None:
    promises.keeps_its_promises(data.draw(damaged_histories(format)))


@every_format
@given(data=st.data())
def test_a_damaged_history_is_mended_under_any_policy(format: str, data: st.DataObject) -> None:
    promises.keeps_its_promises(data.draw(damaged_histories(format, with_policy=True)))


@every_format
@given(data=st.data())
def test_a_legal_history_comes_back_as_it_is(format: str, data: st.DataObject) -> None:
    sample = data.draw(legal_histories(format))
    assert promises.judge(sample, sample.messages) == []
    outcome = promises.keeps_its_promises(sample)
    assert outcome.messages is sample.messages
    assert outcome.findings == ()


@every_format
@given(data=st.data())
def test_with_state_on_the_server_no_orphan_leaves_and_no_id_changes(
    format: str, data: st.DataObject
) -> None:
    sample = data.draw(damaged_histories(format, is_server_side=True))
    outcome = promises.keeps_its_promises(sample)
    kinds = {finding.kind for finding in outcome.findings}
    assert kinds.isdisjoint(("orphan_result", "duplicate_result", "superseded_placeholder"))
    assert not any(finding.action == "renamed" for finding in outcome.findings)
    dropped = {f.call_id for f in outcome.findings if f.action == "dropped"}
    copies = {f.call_id for f in outcome.findings if f.kind == "duplicate_call"}
    assert copies <= dropped
