"""The script of the demo: decided by seed and number of turns, and by nothing else."""

from __future__ import annotations

import pytest

from toolmend._demo.cast import ROLES
from toolmend._demo.phases import PHASES, phase_of
from toolmend._demo.script import Script, place, read_place, turns_for


def plans(script):
    return [script.plan(role, turn) for role in range(len(ROLES)) for turn in range(script.turns)]


def test_the_same_seed_makes_the_same_script():
    assert plans(Script(3, 16)) == plans(Script(3, 16))
    assert plans(Script(3, 16)) != plans(Script(4, 16))


@pytest.mark.parametrize(
    ("seconds", "turns"), [(0, 8), (3, 8), (20, 16), (60, 48)], ids=["none", "3s", "20s", "60s"]
)
def test_the_number_of_turns_follows_from_the_duration(seconds, turns):
    assert turns_for(seconds) == turns


@pytest.mark.parametrize("turns", [8, 9, 16, 31])
def test_phases_are_about_equally_long_and_in_order(turns):
    phases = [phase_of(turn, turns) for turn in range(turns)]

    assert phases == sorted(phases)
    counts = [phases.count(index) for index in range(len(PHASES))]
    assert max(counts) - min(counts) <= 1


def test_trouble_hits_a_call_of_the_last_batch_of_a_turn():
    for plan in plans(Script(1, 32)):
        for batch in plan.batches[:-1]:
            assert batch.trouble is None
        last = plan.batches[-1]
        ids = [call.id for call in last.calls]
        assert (last.trouble is None) == (last.weak is None)
        if last.weak is not None:
            assert last.weak in ids


def test_only_streams_are_cut_off():
    script = Script(1, 64)
    for number, role in enumerate(ROLES):
        troubles = {script.plan(number, turn).batches[-1].trouble for turn in range(64)}
        assert ("cut off" in troubles) == role.is_streaming


@pytest.mark.parametrize(
    "body",
    [{"user": place(2, 13, 1)}, {"metadata": {"user_id": place(2, 13, 1)}}],
    ids=["openai", "anthropic"],
)
def test_a_request_says_where_in_the_script_it_is(body):
    assert read_place(body) == (2, 13, 1)


def test_ids_of_calls_are_distinct():
    ids = [call.id for plan in plans(Script(1, 32)) for b in plan.batches for call in b.calls]

    assert len(ids) == len(set(ids))
