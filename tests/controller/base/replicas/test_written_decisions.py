"""Two replicas on PostgreSQL: one holds all leases and decides; what is written on the other one is decided there.

A decision that the holder began before such a write is never stored after it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import pytest

from tidemark.controller.base.background import GoOn
from tidemark.controller.base.db.leases import SHARDS

from support.controller_app import Controller
from support.policies import at_once
from support.reports import exponential_batches, query_reports
from support.threads import in_threads

REPORTS = query_reports(exponential_batches(24, 50, slow=3))
TARGETS = [900_000, 990_000]
WRITES = 12


@pytest.fixture
def replicas(new_postgres_url: str) -> Iterator[tuple[Controller, Controller]]:
    """The one that holds all leases, and one that holds none."""
    with Controller(new_postgres_url) as holder, Controller(new_postgres_url) as writer:
        writer.service.decider.leases.stop()
        holder.service.decider.leases.keep(now=True)
        assert (holder.service.decider.leases.held, writer.service.decider.leases.held) == (SHARDS, 0)
        writer.put("/policy", at_once())
        writer.report_all(REPORTS[:-1])
        yield holder, writer


def decide(replica: Controller, go_on: GoOn = lambda: None) -> None:
    replica.service.decider.decide(1, replica.clock(), go_on)


def write(replica: Controller, target_ppm: int) -> int:
    """Set a target, and return the bound that is recommended for it."""
    answer = replica.put("/slo", {"target_ppm": target_ppm})
    assert answer.status_code == 200, answer.text
    bound_ms: int = answer.json()["recommended"]["bound_ms"]
    assert recommended(replica) == (bound_ms, True)
    return bound_ms


def recommended(replica: Controller) -> tuple[int, bool]:
    """Return the bound that the status recommends, and whether it is for the SLO that is set."""
    found = replica.status()["recommended"]
    return found["bound_ms"], found["current"]


def events(replica: Controller, *kinds: str) -> list[dict[str, Any]]:
    """Return the stream's events of some kinds, the oldest first."""
    found = replica.get("/events", params={"limit": 1_000}).json()["events"]
    return [event for event in reversed(found) if event["kind"] in kinds]


def at_call(number: int, act: Callable[[], object]) -> GoOn:
    """Return what a decision calls between its steps, which acts at one of them: after loading, or before writing."""
    calls = Counter[str]()

    def go_on() -> None:
        calls["all"] += 1
        if calls["all"] == number:
            act()

    return go_on


@pytest.mark.long
def test_who_decides_in_a_loop_never_takes_back_what_others_write(
    replicas: tuple[Controller, Controller],
) -> None:
    holder, writer = replicas
    over = threading.Event()

    def decide_on() -> None:
        while not over.is_set():
            decide(holder)

    with in_threads(decide_on, over=over):
        bounds_ms = [write(writer, target) for target in islice(cycle(TARGETS), WRITES)]
    assert len({*bounds_ms}) == len(TARGETS)
    assert bounds_ms == [*islice(cycle(bounds_ms[: len(TARGETS)]), WRITES)]
    written = events(writer, "SloSet", "RecommendationChanged")
    assert [event["kind"] for event in written] == ["SloSet", "RecommendationChanged"] * WRITES
    moves = [
        (event["kind"], json.loads(event["after"])["rollout"])
        for event in events(writer, "RolloutRecommended", "RolloutPublished")
    ]
    assert moves
    assert len(moves) == len({*moves}), "no rollout is begun or published twice"
    assert writer.service.loop.failures._value.get() == 0


@pytest.mark.parametrize("call", [1, 2], ids=["after it was loaded", "before it is written"])
def test_a_decision_that_was_begun_before_a_write_is_dropped(
    replicas: tuple[Controller, Controller], call: int
) -> None:
    holder, writer = replicas
    former_ms = write(writer, TARGETS[0])
    decide(holder, at_call(call, lambda: write(writer, TARGETS[1])))
    bound_ms, current = recommended(writer)
    assert current
    assert bound_ms != former_ms


def test_a_decision_with_earlier_reports_does_not_take_the_place_of_one_with_later_ones(
    replicas: tuple[Controller, Controller],
) -> None:
    holder, writer = replicas
    write(writer, TARGETS[0])

    def report_and_write() -> None:
        writer.report(REPORTS[-1])
        assert recommended(writer)[1] is False
        # An equal SLO is no other generation, but it is decided.
        write(writer, TARGETS[0])

    decide(holder, at_call(2, report_and_write))
    assert recommended(writer)[1] is True
    decide(holder)
    assert recommended(writer)[1] is True
