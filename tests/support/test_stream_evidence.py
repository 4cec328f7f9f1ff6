"""The evidence of reports without a store; that it is the controller's is held in tests/controller."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import merge_all
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.specs.slo import Policy, Slo

from support.oracles import replay_reports
from support.reports import START_US, exponential_batches, query_reports
from support.stream_evidence import StreamEvidence
from support.streams import SECOND

SLO = Slo(target_ppm=900_000, horizon_ms=300_000)
REPORTS = query_reports(exponential_batches(40, 50, slow=3))


def evidence_of(*, slo: Slo = SLO, interval_us: int = SECOND) -> StreamEvidence:
    evidence = StreamEvidence(slo, Policy())
    for report in query_reports(exponential_batches(40, 50, slow=3), interval_us=interval_us):
        assert evidence.add(report)
    return evidence


def test_without_reports_there_is_nothing_to_decide_from() -> None:
    evidence = StreamEvidence(SLO, Policy())
    assert evidence.inputs() is None
    assert evidence.decide() is None


def test_a_report_counts_once() -> None:
    evidence = evidence_of()
    before = evidence.facts(), evidence.needs()
    assert not evidence.add(REPORTS[-1])
    assert (evidence.facts(), evidence.needs()) == before


def test_the_needs_are_those_of_the_replay_and_the_partitions_make_the_whole() -> None:
    evidence, replay = evidence_of(), replay_reports(REPORTS)
    # The first two batches met a filter that knew nothing: their rows have no need.
    known = replay.step >= 2
    exact = Sketch()
    exact.add(replay.needs_us()[known], replay.count[known])
    assert evidence.needs() == exact
    assert merge_all(evidence.needs(str(partition)) for partition in range(4)) == exact
    assert evidence.needs("0").weight < exact.weight
    assert evidence.needs("unheard of").weight == 0


def test_what_lies_before_the_horizon_is_forgotten_but_not_the_base_it_made() -> None:
    long, short = (
        evidence_of(slo=Slo(target_ppm=900_000, horizon_ms=ms), interval_us=20 * SECOND)
        for ms in (86_400_000, 120_000)
    )
    whole, rest = long.inputs(), short.inputs()
    assert whole is not None
    assert rest is not None
    # From the slot's edge at or before two minutes ago.
    assert (long.facts().batches, short.facts().batches) == (40, 7)
    assert rest.curve.needs.weight < whole.curve.needs.weight / 5
    # The windows before the horizon are not emitted in it, since the base had passed them.
    assert rest.curve.emissions is not None
    assert whole.curve.emissions is not None
    assert set(rest.curve.emissions.end_us.tolist()) < set(whole.curve.emissions.end_us.tolist())
    assert (rest.curve.emissions.emit_base_us == whole.curve.emissions.emit_base_us[-7:]).all()


@pytest.mark.slow
def test_what_was_asked_for_a_moment_ago_is_narrowed_late_but_not_by_deciding_twice() -> None:
    evidence = StreamEvidence(Slo(target_ppm=900_000, horizon_ms=60_000), Policy())
    body: list[Recommendation | None] = []
    delays_s = np.concatenate([np.full(60, 30.0), np.full(200, 0.5)])
    batches = [
        [("0", START_US + n * SECOND - round(delay * SECOND * part / 20)) for part in range(20)]
        for n, delay in enumerate(delays_s.tolist())
    ]
    for report in query_reports(batches, tumbling("1 s"), bound_ms=60_000):
        evidence.add(report)
        body.append(evidence.decide())
        assert evidence.decide() == body[-1]
    last = body[-1]
    assert last is not None
    steps = {step.kind.label: step.bound_ms for step in last.steps}
    widest = max(one.required_ms or 0 for one in body if one is not None)
    assert last.required_ms is not None
    assert last.required_ms < widest == steps["narrow late"]
