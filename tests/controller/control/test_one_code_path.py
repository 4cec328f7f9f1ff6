"""One code path: the server decides what the same reports decide without it, and what the backtest decides."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

from tidemark.controller.base.settings import Settings
from tidemark.controller.server.process.loop import Tick, run_once
from tidemark.controller.server.process.service import Service
from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.run import run
from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Setup
from tidemark.models.protocol.messages import Report, to_json_object
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.specs.slo import Policy, Slo

from support.backtests import arrivals_of, random_rows
from support.controller_app import STREAM, ManualClock, make_app
from support.patience import PATIENCE_S, until
from support.reports import exponential_batches, query_reports
from support.stream_evidence import StreamEvidence
from support.streams import SECOND, report_of

pytestmark = pytest.mark.slow

Row = tuple[int, int, int]
Plain = tuple[int | None, list[tuple[str, int | None, str]]]
RECEIVED_LATER_US = SECOND // 2


@dataclass
class Server:
    """A server on its own port, its clock and its ticks controlled by the test."""

    http: httpx.Client
    service: Service
    clock: ManualClock

    def put(self, what: str, body: dict[str, Any]) -> None:
        answer = self.http.put(f"{STREAM}/{what}", json=body)
        assert answer.status_code == 200, answer.text

    def report(self, report: Report) -> None:
        answer = self.http.post(f"{STREAM}/reports", json=to_json_object(report))
        assert answer.status_code == 201, answer.text

    def tick(self) -> Tick:
        return run_once(self.service.database, self.service.decider, self.service.loop, self.clock())

    def recommended(self) -> Plain:
        recommended = self.http.get(STREAM).json()["recommended"]
        assert recommended["current"]
        steps = [(step["kind"], step["bound_ms"], step["reason"]) for step in recommended["steps"]]
        return recommended["bound_ms"], steps


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The real application under uvicorn on a free port of loopback, on SQLite."""
    clock = ManualClock()
    settings = Settings(database_url=f"sqlite:///{folder / 'tidemark.db'}", tick_seconds=3_600)
    app = make_app(settings, clock)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started and app.state.service.ticker.ticks, "the first tick", pause_s=0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http:
            yield Server(http, app.state.service, clock)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


def plain(recommendation: Recommendation | None) -> Plain:
    assert recommendation is not None
    return recommendation.bound_ms, [(step.kind, step.bound_ms, step.reason) for step in recommendation.steps]


def _stream(
    operator: Operator, *, interval_us: int = SECOND, batches: int = 60, slow: int | None = None
) -> list[Report]:
    return query_reports(
        exponential_batches(batches, 40, slow=slow), operator, interval_us=interval_us, bound_ms=45_000
    )


def _with_gaps() -> list[Report]:
    """A lost report, rows that were not counted, a restart with another bound, and a second query."""
    first = _stream(tumbling("10 s"), slow=3)
    first = [
        replace(report, rows=report.rows + 25) if report.batch_id == 30 else report
        for report in first
        if report.batch_id not in {17, 18, 40}
    ]
    first = [
        replace(report, run_id="second", bound_ms=9_000, late_base_ms=None)
        if report.batch_id >= 45
        else report
        for report in first
    ]
    later_us = first[-1].started_us + 5 * SECOND
    other = [
        replace(report, query_id="other", run_id="third", started_us=later_us + report.batch_id * SECOND)
        for report in query_reports(exponential_batches(20, 60, seed=8), tumbling("10 s"), bound_ms=7_000)
    ]
    return first + other


def _with_silence() -> list[Report]:
    """Every third batch is empty, and in the middle the stream is silent for an hour."""
    reports = query_reports(
        [rows if n % 3 else [] for n, rows in enumerate(exponential_batches(60, 40))], bound_ms=30_000
    )
    return [
        replace(report, started_us=report.started_us + (3_600 * SECOND if report.batch_id > 30 else 0))
        for report in reports
    ]


STREAMS: dict[str, Callable[[], list[Report]]] = {
    "tumbling": lambda: _stream(tumbling("10 s"), slow=3),
    "sliding": lambda: _stream(sliding("10 s", "5 s")),
    "session": lambda: _stream(session("10 s")),
    "row level": lambda: _stream(row_level()),
    "longer than the horizon": lambda: _stream(tumbling("10 s"), interval_us=20 * SECOND),
    "gaps, a restart, a second query": _with_gaps,
    "silence": _with_silence,
}
SHORT = Slo(target_ppm=950_000, horizon_ms=600_000)
SLOS = (
    Slo(target_ppm=900_000, horizon_ms=300_000),
    Slo(target_ppm=980_000, latency_cap_ms=8_000, on_conflict="miss_target", horizon_ms=240_000),
)


@pytest.mark.long
@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(list(zip(STREAMS.values(), itertools.cycle(SLOS), strict=False)), id="in turn"),
        pytest.param(list(itertools.product(STREAMS.values(), SLOS)), id="all", marks=pytest.mark.soak),
    ],
)
def test_the_same_reports_are_decided_alike_by_the_running_server_and_without_it(
    tmp_path: Path, pairs: list[tuple[Callable[[], list[Report]], Slo]], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is replayed offline must be what the service would have done, to the last word of its reasons."""
    decisions = bounds = steps = 0
    names: set[str] = set()
    for number, (make, slo) in enumerate(pairs):
        (tmp_path / str(number)).mkdir()
        reports, policy = make(), Policy(min_bound_ms=100, max_bound_ms=120_000)
        with serving(tmp_path / str(number)) as server:
            server.put("slo", _slo_body(slo))
            server.put("policy", {"min_bound_ms": 100, "max_bound_ms": 120_000})
            evidence = StreamEvidence(slo, policy)
            for position, report in enumerate(reports):
                server.clock.now_us = report.started_us + RECEIVED_LATER_US
                server.report(report)
                assert evidence.add(report, server.clock.now_us)
                if position % 4 != 3:
                    continue
                # Sometimes the tick is late.
                server.clock.now_us += [0, SECOND, 900 * SECOND][position // 4 % 3]
                assert server.tick() == Tick(1, 0, 0)
                body = server.recommended()
                assert plain(evidence.decide(server.clock.now_us)) == body
                decisions += 1
                bounds += body[0] is not None
                steps += len(body[1])
                names |= {name for name, _, _ in body[1]}
    with capsys.disabled():
        print(
            f"\none code path: {decisions} decisions of the server compared, {bounds} with a bound, "
            f"{steps} steps of {len(names)} kinds; 0 differ"
        )
    assert decisions > 100
    assert bounds > 50
    assert {"Quantile", "UnknownRows", "LatencyCap", "Limits", "DeadBand"} <= names


def _slo_body(slo: Slo) -> dict[str, Any]:
    return {
        "target_ppm": slo.target_ppm,
        "latency_cap_ms": slo.latency_cap_ms,
        "on_conflict": slo.on_conflict,
        "horizon_ms": slo.horizon_ms,
    }


class Listening:
    """The policy, with a note of each of its recommendations."""

    native = False

    def __init__(self, policy: RecommendedPolicy) -> None:
        self.policy = policy
        self.plain: list[Plain] = []
        self.batches = 0

    def observe(self, seen: Observation) -> None:
        self.batches += 1
        self.policy.observe(seen)

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        decision = self.policy.decide(now_us, in_force_us)
        if self.batches:
            self.plain.append(plain(self.policy.recommendation))
        return decision


def _busy() -> list[Row]:
    return random_rows(np.random.default_rng(4), 2_400, 1_200 * SECOND, 30 * SECOND, 3)


def _polled() -> list[Row]:
    """A feed that is polled every quarter of an hour, with 25 rows a day."""
    poll_us = 900 * SECOND
    rows = random_rows(np.random.default_rng(4), 200, 8 * DAY_US, poll_us, 1)
    return [(event_us, -(-event_us // poll_us) * poll_us, part) for event_us, _, part in sorted(rows)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("operator", "trigger_us", "slo", "made"),
    [
        pytest.param(tumbling("10 s"), 10 * SECOND, SHORT, _busy, id="tumbling"),
        pytest.param(
            sliding("20 s", "10 s"), 10 * SECOND, SHORT, _busy, id="sliding", marks=pytest.mark.soak
        ),
        pytest.param(row_level(), 10 * SECOND, SHORT, _busy, id="row level"),
        pytest.param(
            tumbling("1 h"), 900 * SECOND, Slo(target_ppm=950_000), _polled, id="polled, horizon open"
        ),
    ],
)
def test_the_backtest_decides_what_the_running_server_decides(
    tmp_path: Path,
    operator: Operator,
    trigger_us: int,
    slo: Slo,
    made: Callable[[], list[Row]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The loop is closed: each batch runs with the bound decided after the one before it, here and there."""
    setup = Setup(
        operator=operator,
        trigger_us=trigger_us,
        target_ppm=slo.target_ppm,
        mode="restart",
        restart_cost_us=0,
    )
    rows = made()
    listening = Listening(RecommendedPolicy(setup, slo, own_bound_us=120 * SECOND))
    found = run(arrivals_of(rows, setup, 3), setup, listening)
    by_slot: dict[int, list[tuple[str, int]]] = {}
    for event_us, arrival_us, part in rows:
        by_slot.setdefault((arrival_us - rows[0][1]) // setup.trigger_us, []).append((str(part), event_us))
    reports = [
        report_of(
            by_slot.get(slot, []),
            operator,
            granule_us=setup.granule_us,
            late_watermark_ms=_ms(found.late_watermark_us, batch),
            watermark_ms=_ms(found.watermark_us, batch),
            bound_ms=int(found.bound_us[batch]) // 1_000,
            batch_id=batch,
            started_us=int(found.wall_us[batch]),
        )
        for batch, slot in enumerate(found.slot.tolist())
    ]
    with serving(tmp_path) as server:
        server.put("slo", _slo_body(slo))
        for report, body in zip(reports, listening.plain, strict=False):
            server.clock.now_us = report.started_us
            server.report(report)
            server.tick()
            assert server.recommended() == body, f"batch {report.batch_id}"
    with capsys.disabled():
        print(
            f"\none code path, {operator}: {len(listening.plain)} decisions, {found.bound_changes} restarts; 0 differ"
        )
    assert len(listening.plain) > 100
    assert found.bound_changes > 0


def _ms(marks_us: Sequence[int] | np.ndarray[Any, Any], batch: int) -> int:
    mark_us = int(marks_us[batch])
    return 0 if mark_us == NO_BASE_US else mark_us // 1_000
