"""How soon ToolmendPatchRateRising fires and how often it is wrong, on random services in a real Prometheus.

    python -m benchmarks.alert_sensitivity [--draws N] [--seed S]

Every draw is a service of its own with 26 hours of a past. Its counters are filled into Prometheus,
the recording rules of dashboards/rules/toolmend.rules.yml are evaluated every minute over them, and so
is the alert; `for` and `keep_firing_for` are applied to what it answers. Nothing is tuned here: the
rules are the committed ones, and each run draws anew unless it is given a seed.

Calls arrive by chance (Poisson) and are lost by chance. Samples and evaluations fall on the same whole
minutes. The first sample that can know of an event lies one minute behind it. Exit code 1: a promise
is broken.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import secrets
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.services.prometheus import (
    backfill,
    backfill_rules,
    find_prometheus,
    find_promtool,
    running_prometheus,
)
from toolmend.telemetry import names
from toolmend.telemetry.names import prometheus_label, prometheus_name

RULES = Path(__file__).parents[1] / "dashboards/rules/toolmend.rules.yml"
ALERT = "ToolmendPatchRateRising"

MINUTE = 60
DAY = 24 * 60
PAST = 26 * 60  # minutes: a day, the hour that is left out of it, and one more
# How many minutes are watched after the past, by what is asked: how soon it fires, or whether it does.
EVENT, CALM, NEW, RESTART = 180, 2 * DAY, 6 * 60, 60

MIN_WITHIN_15 = 0.75
MIN_WITHIN_30 = 0.99  # so every draw, up to a hundred of them; 3 in 1,000 are slower by chance
MAX_FALSE_A_DAY = 0.1
# Of the draws of a restart, so many may meet a false alarm of another origin; one always may.
MAX_BY_CHANCE = 0.05


@dataclass(frozen=True)
class Life:
    """The counters of one process from its first minute on: requested and dangling, cumulative."""

    first_minute: int
    requested: list[int]
    dangling: list[int]


@dataclass(frozen=True)
class Case:
    """One kind of service, and what is asked of the alert."""

    title: str
    draw: Callable[[random.Random, int], list[Life]]  # (dice, minutes)
    draws: float = 1.0  # times --draws
    watch: int = EVENT

    @property
    def fires(self) -> bool:
        """Whether it should: something gets worse right after the past."""
        return self.watch == EVENT


@dataclass(frozen=True)
class Outcome:
    """What the alert did in the draws of a case."""

    case: Case
    minutes_to_fire: list[int | None]
    alarms: int
    days: float

    @property
    def alarms_a_day(self) -> float:
        return self.alarms / self.days

    def within(self, minutes: int) -> int:
        return sum(each is not None and each <= minutes for each in self.minutes_to_fire)


# Chance.


@cache
def _cumulated(mean: float) -> tuple[float, ...]:
    """The distribution function of a Poisson count, far enough that a draw cannot lie behind it."""
    last = int(mean + 12 * math.sqrt(mean) + 20)
    chances = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(last)]
    return tuple(itertools.accumulate(chances))


def poisson(dice: random.Random, mean: float) -> int:
    return bisect_left(_cumulated(mean), dice.random()) if mean else 0


# Services.


def service(
    dice: random.Random,
    minutes: int,
    a_minute: Callable[[int], float],
    lost: Callable[[int], float],
    *,
    first_minute: int = 0,
    batch: int = 1,
    before: tuple[int, int] = (0, 0),
) -> Life:
    """Draw one process; `a_minute` and `lost` tell the calls and the share lost in each minute."""
    requested, dangling = [before[0]], [before[1]]
    for minute in range(first_minute + 1, minutes):
        calls, share = a_minute(minute), lost(minute)
        bad = batch * poisson(dice, calls * share / batch)
        requested.append(requested[-1] + bad + poisson(dice, calls * (1 - share)))
        dangling.append(dangling[-1] + bad)
    return Life(first_minute, requested, dangling)


def always(value: float) -> Callable[[int], float]:
    return lambda _: value


def step(low: float, high: float) -> Callable[[int], float]:
    return lambda minute: high if minute > PAST else low


def ramp(low: float, high: float, minutes: int) -> Callable[[int], float]:
    return lambda minute: low + (high - low) * min(max(minute - PAST, 0) / minutes, 1)


def wave(low: float, high: float) -> Callable[[int], float]:
    """Calls a minute over a day, in steps of ten minutes."""
    return lambda minute: (
        low + (high - low) * (0.5 - 0.5 * math.cos(2 * math.pi * (minute // 10) / (DAY / 10)))
    )


def one(hourly: float, lost: Callable[[int], float], **more: int) -> Callable:
    return lambda dice, minutes: [service(dice, minutes, always(hourly / 60), lost, **more)]


def after_an_incident(dice: random.Random, minutes: int) -> list[Life]:
    """Twenty hours ago 40 % were lost for four hours."""

    def lost(minute: int) -> float:
        return 0.4 if PAST - 1200 < minute <= PAST - 960 else step(0.03, 0.09)(minute)

    return one(1200, lost)(dice, minutes)


def daily_wave(dice: random.Random, minutes: int) -> list[Life]:
    return [service(dice, minutes, wave(100 / 60, 2400 / 60), always(0.02))]


def rolling_deploy(dice: random.Random, minutes: int) -> list[Life]:
    """Three replicas end one after the other; each has a successor that counts from 0."""
    lives = []
    for number in range(3):
        ends = PAST + 5 * number
        lives.append(service(dice, ends, always(400 / 60), always(0.03)))
        lives.append(service(dice, minutes, always(400 / 60), always(0.03), first_minute=ends))
    return lives


def reset_in_place(dice: random.Random, minutes: int) -> list[Life]:
    """The process starts anew under the same labels."""
    [life] = one(1200, always(0.03))(dice, minutes)
    return [Life(0, *(_from_zero(values, PAST + 10) for values in (life.requested, life.dangling)))]


def _from_zero(values: list[int], minute: int) -> list[int]:
    return [*values[:minute], *(value - values[minute] for value in values[minute:])]


def first_scrape(dice: random.Random, minutes: int) -> list[Life]:
    """Prometheus meets a process that has been running for weeks, and worse than today."""
    calls, lost = always(1200 / 60), always(0.03)
    return [
        service(dice, minutes, calls, lost, first_minute=PAST, before=(400_000, 40_000)),
    ]


CASES = (
    Case("3 % to 9 %, 1,200 calls an hour", one(1200, step(0.03, 0.09)), 5),
    Case("the same, lost four at a time", one(1200, step(0.03, 0.09), batch=4), 0.5),
    Case("the same, the day after 4 h of 40 %", after_an_incident, 0.5),
    Case("1 % to 3 %, 1,200 an hour", one(1200, step(0.01, 0.03)), 0.5),
    Case("3 % to 9 %, 300 an hour", one(300, step(0.03, 0.09)), 0.5),
    Case("0 % to 5 %, 1,200 an hour", one(1200, step(0, 0.05)), 0.5),
    Case("1 % to 5 % within 2 h, 1,200 an hour", one(1200, ramp(0.01, 0.05, 120)), 0.5),
    Case("steady 3 %, 1,200 an hour", one(1200, always(0.03)), 2, CALM),
    Case("steady 3 %, lost four at a time", one(1200, always(0.03), batch=4), 0.25, CALM),
    Case("steady 2 %, 100 to 2,400 an hour by day", daily_wave, 0.25, CALM),
    Case("10 an hour, steady 3 %", one(10, always(0.03)), 1, NEW),
    Case("10 an hour, 3 % to 50 %", one(10, step(0.03, 0.5)), 1, NEW),
    Case("first scrape of an old process", first_scrape, 0.5, NEW),
    Case("first 6 h of a service, 3 %", one(1200, always(0.03), first_minute=PAST), 0.5, NEW),
    Case("rolling deploy of 3 replicas", rolling_deploy, 1, RESTART),
    Case("counter reset in place", reset_in_place, 1, RESTART),
)


# From services to answers.


def measure(cases: list[Case], draws: int, dice: random.Random) -> list[Outcome]:
    """Draw cases that are watched for the same time, fill them into one Prometheus and ask it."""
    watch = cases[0].watch
    minutes = PAST + watch
    drawn = {
        (case, number): f"{index}/{number}"
        for index, case in enumerate(cases)
        for number in range(max(1, round(draws * case.draws)))
    }
    end = int(time.time()) // 3600 * 3600 - 3600
    start = end - (minutes - 1) * MINUTE
    watched = start + PAST * MINUTE
    with tempfile.TemporaryDirectory(prefix="toolmend-alert-sensitivity-") as name:
        folder = Path(name)
        samples = folder / "samples.txt"
        lives = {
            job: case.draw(random.Random(dice.random()), minutes)
            for (case, _), job in drawn.items()
        }
        with samples.open("w") as out:
            out.writelines(_open_metrics(lives, start))
        del lives
        backfill(find_promtool(), samples, folder / "data")
        samples.unlink()
        backfill_rules(
            find_promtool(),
            RULES,
            folder,
            start=start,
            end=end,
            since=_compare_with_the_past(folder, watched),
        )
        config = json.dumps({"rule_files": [str(RULES)]})
        with running_prometheus(folder, config=config) as server:
            [rule] = [each for each in server.rules() if each["name"] == ALERT]
            answers: dict[str, set[int]] = {}
            for since in range(watched, end + 1, 6 * 3600):
                until = min(end, since + 6 * 3600 - MINUTE)
                for labels, found in server.query_range(rule["query"], since, until, MINUTE):
                    true = answers.setdefault(labels["job"], set())
                    true.update(int(when - watched) // MINUTE for when, _ in found)
    outcomes = []
    for case in cases:
        firing = [
            _firing(answers.get(job, set()), watch, rule["duration"], rule["keepFiringFor"])
            for (each, _), job in drawn.items()
            if each is case
        ]
        outcomes.append(
            Outcome(
                case,
                [states.index(True) if True in states else None for states in firing],
                sum(_rises(states) for states in firing),
                len(firing) * watch / DAY,
            )
        )
    return outcomes


def _compare_with_the_past(folder: Path, watched: int) -> dict[str, int]:
    """What looks back a day is needed while we watch; it costs most."""
    config = json.dumps({"rule_files": [str(RULES)]})
    with running_prometheus(folder / "names", config=config) as server:
        return {
            rule["name"]: watched - 10 * MINUTE
            for rule in server.rules()
            if rule["type"] == "recording" and "quantile_over_time" in rule["query"]
        }


def _open_metrics(lives: dict[str, list[Life]], start: int) -> Iterator[str]:
    first = f'{prometheus_label(names.RECURRENCE)}="first"'
    for metric, of, label in (
        (names.TOOL_CALLS_REQUESTED, "requested", ""),
        (names.TOOL_CALLS_DANGLING, "dangling", f",{first}"),
    ):
        name = prometheus_name(metric)
        yield f"# TYPE {name.removesuffix('_total')} counter\n"
        for job, processes in lives.items():
            for number, life in enumerate(processes):
                head = f'{name}{{job="{job}",instance="{number}"{label}}}'
                begins = start + life.first_minute * MINUTE
                for minute, value in enumerate(getattr(life, of)):
                    yield f"{head} {value} {begins + minute * MINUTE}\n"
    yield "# EOF\n"


def _firing(true: set[int], watch: int, hold: float, keep: float) -> list[bool]:
    """What Prometheus makes of the minutes in which the expression holds: `for`, then `keep_firing_for`."""
    held, last, states = 0, None, []
    for minute in range(watch):
        held = held + 1 if minute in true else 0
        if held > hold / MINUTE:
            last = minute
        states.append(last is not None and minute - last <= (keep / MINUTE if last < minute else 0))
    return states


def _rises(states: list[bool]) -> int:
    return sum(now and not before for before, now in itertools.pairwise([False, *states]))


# What is printed.


def table(outcomes: list[Outcome]) -> Iterator[str]:
    yield f"{'case':<41} {'draws':>5} {'by 15 min':>10} {'by 30 min':>10} {'median':>7} {'latest':>7} {'false a day':>12}"
    for outcome in outcomes:
        times, draws = outcome.minutes_to_fire, len(outcome.minutes_to_fire)
        row = f"{outcome.case.title:<41} {draws:>5} "
        if outcome.case.fires:
            late = [math.inf if each is None else each for each in times]
            cells = (f"{outcome.within(15)}", f"{outcome.within(30)}")
            row += f"{cells[0]:>10} {cells[1]:>10} {_minutes(statistics.median(late)):>7} {_minutes(max(late)):>7}"
        else:
            days = outcome.days
            watched = f"{days:.0f} d" if days >= 1.5 else f"{days * 24:.0f} h"
            false = f"{outcome.alarms} in {watched}"
            row += f"{'':>37} {outcome.alarms_a_day:>5.2f} ({false})"
        yield row


def _minutes(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:g} min"


def promises(outcomes: list[Outcome]) -> Iterator[tuple[bool, str]]:
    by_title = {outcome.case.title: outcome for outcome in outcomes}
    tripling = by_title["3 % to 9 %, 1,200 calls an hour"]
    draws = len(tripling.minutes_to_fire)
    soon, later = tripling.within(15), tripling.within(30)
    yield (
        soon >= MIN_WITHIN_15 * draws,
        f"a step from 3 % to 9 % fires within 15 minutes in 3 of 4 draws: {soon} of {draws}",
    )
    yield (
        later >= MIN_WITHIN_30 * draws,
        f"and within 30 minutes in 99 of 100: {later} of {draws}",
    )
    steady = by_title["steady 3 %, 1,200 an hour"]
    yield (
        steady.alarms_a_day <= MAX_FALSE_A_DAY,
        f"at most {MAX_FALSE_A_DAY} false alarms a day at a steady 3 %: {steady.alarms_a_day:.3f}",
    )
    for title in (
        "10 an hour, steady 3 %",
        "10 an hour, 3 % to 50 %",
        "first scrape of an old process",
        "first 6 h of a service, 3 %",
    ):
        alarms = by_title[title].alarms
        yield alarms == 0, f"silent: {title}: {alarms} alarms"
    for title in ("rolling deploy of 3 replicas", "counter reset in place"):
        outcome = by_title[title]
        draws = len(outcome.minutes_to_fire)
        yield (
            outcome.alarms <= max(1, MAX_BY_CHANCE * draws),
            f"no more than chance in the hour after: {title}: {outcome.alarms} of {draws} draws",
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.alert_sensitivity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=40,
        help="services per case; some cases take a share or a multiple of it (default: 40, some minutes)",
    )
    parser.add_argument("--seed", type=int, help="of the draws; fresh and printed when left out")
    arguments = parser.parse_args()
    if find_prometheus() is None or find_promtool() is None:
        print(
            "no Prometheus 3 with promtool found: .ci/build-prometheus builds one", file=sys.stderr
        )
        return 2
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    dice = random.Random(seed)
    began = time.monotonic()
    print(f"{ALERT}, seed {seed}, {arguments.draws} draws", flush=True)
    outcomes = []
    for _, cases in itertools.groupby(CASES, key=lambda case: case.watch):
        outcomes += measure(list(cases), arguments.draws, dice)
    print(*table(outcomes), sep="\n")
    print()
    kept = True
    for holds, text in promises(outcomes):
        kept &= holds
        print(f"{'kept  ' if holds else 'BROKEN'}  {text}")
    print(f"\n{time.monotonic() - began:.0f} s")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
