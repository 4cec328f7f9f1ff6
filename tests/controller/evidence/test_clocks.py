"""Wrong clocks of every size move no bound, neither while they last nor afterwards, and the wrong one is named."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.tables import ReportRow, StreamRow
from tidemark.controller.evidence.rollups import Span, needs_of, rollups_in, sums_of
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.misdated import CLOCKS_AGREE_US
from tidemark.models.evidence.slots import DAY_US, HOUR_US
from tidemark.models.protocol.messages import Report

from support.controller_app import Controller
from support.empty_store import open_empty
from support.reports import START_US
from support.rolled_job import RolledJob
from support.streams import SECOND, Row, report_of
from support.taking import take_reports

MINUTE_US = 60 * SECOND
TRIGGER_US = 2 * SECOND
DELAY_US = 20 * SECOND
BEFORE, DURING, AFTER = 30, 30, 90
SHARE_PPM = 990_000


@dataclass(frozen=True)
class Fault:
    """Whose clock is off, and by how much, for ``DURING`` batches."""

    who: str = "nobody"
    off_us: int = 0
    partitions: int = 2

    @property
    def name(self) -> str:
        return f"{self.who} {self.off_us // SECOND} s {self.partitions}"

    @property
    def driver_us(self) -> int:
        return self.off_us if self.who in {"driver", "both"} else 0

    def row_us(self, partition: int) -> int:
        return self.off_us if self.who in {"rows", "both"} and partition < self.partitions else 0


SIZES_US = (SECOND, MINUTE_US, HOUR_US, DAY_US)
FAULTS = [
    Fault(who, sign * size_us, partitions)
    for who, sign, size_us, partitions in product(("driver", "rows", "both"), (1, -1), SIZES_US, (1, 2))
    if who != "driver" or partitions == 2
]


class FaultyJob:
    """A job of two partitions with delays up to ``DELAY_US``, whose query moves its watermark as Spark does."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._dice = random.Random(7)
        self._maxima: list[int] = []
        self._watermark_ms = 0

    def report(self, batch: int, rows: list[Row] | None = None) -> Report:
        """Return the report of the next batch, sent half a second after its trigger."""
        now_us = START_US + batch * TRIGGER_US
        wrong = BEFORE <= batch < BEFORE + DURING
        driver_us = self.fault.driver_us if wrong else 0
        if rows is None:
            rows = [
                (
                    str(part),
                    now_us
                    - round(self._dice.random() * DELAY_US)
                    + (self.fault.row_us(part) if wrong else 0),
                )
                for part in (0, 1)
                for _ in range(10)
            ]
        late_ms = self._watermark_ms
        if self._maxima:
            self._watermark_ms = max(late_ms, max(self._maxima) // 1_000 - 30_000)
        base_us = max(self._maxima[:-1], default=None)
        if rows:
            self._maxima.append(max(time for _, time in rows))
        return report_of(
            rows,
            tumbling("1 second"),
            granule_us=SECOND,
            stream=self.fault.name,
            batch_id=batch,
            started_us=now_us + driver_us,
            sent_us=now_us + SECOND // 2 + driver_us,
            duration_ms=100,
            late_watermark_ms=late_ms,
            watermark_ms=self._watermark_ms,
            late_base_ms=None if base_us is None else base_us // 1_000,
            bound_ms=30_000,
        )


@pytest.fixture(scope="module")
def needs_ms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[Fault, Mapping[str, float]]]:
    """Return by fault what its stream needs at the end of it and afterwards, and how many rows are without a need."""
    database = open_empty(f"sqlite:///{tmp_path_factory.mktemp('store') / 'clocks.db'}")
    jobs = {fault: FaultyJob(fault) for fault in (Fault(), *FAULTS)}
    found: dict[Fault, dict[str, float]] = {fault: {} for fault in jobs}
    for batch in range(BEFORE + DURING + AFTER):
        now_us = START_US + batch * TRIGGER_US + SECOND // 2
        with database.write() as session:
            taken = take_reports(session, [job.report(batch) for job in jobs.values()], now_us)
        assert all(hasattr(each, "received_us") for each in taken)
        if batch in {BEFORE + DURING - 1, BEFORE + DURING + AFTER - 1}:
            with database.read() as session:
                ids = {row.stream: row.id for row in session.execute(select(StreamRow.stream, StreamRow.id))}
                for fault, known in found.items():
                    parts = rollups_in(session, Span(ids[fault.name], START_US))
                    sums = sums_of(parts)
                    assert sums is not None
                    when = "after" if "while" in known else "while"
                    needs = needs_of(parts)
                    known[when] = (
                        float(needs.value_at_rank(round(needs.weight * SHARE_PPM / 1e6)) or 0) / 1_000
                    )
                    known["misdated"] = sums.sums["misdated_rows"]
    yield found
    database.close()


def may_move(fault: Fault) -> bool:
    """Return whether rows are behind that nothing tells from late ones: their driver is not, or not for sure."""
    behind = fault.off_us < 0 and fault.who != "driver"
    return behind and (fault.who == "rows" or fault.off_us > -MINUTE_US)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("when", ["while", "after"])
def test_a_wrong_clock_of_any_size_leaves_the_needs_as_they_are_without_it(
    needs_ms: Mapping[Fault, Mapping[str, float]], when: str
) -> None:
    """Within what two clocks may be apart and still be right, and a tenth."""
    right_ms = needs_ms[Fault()][when]
    moved = {
        fault.name: (known[when], right_ms)
        for fault, known in needs_ms.items()
        if not may_move(fault) and abs(known[when] - right_ms) > CLOCKS_AGREE_US / 1_000 + right_ms / 10
    }
    assert not moved


@pytest.mark.slow
def test_rows_that_are_behind_alone_count_as_late_rows_do(
    needs_ms: Mapping[Fault, Mapping[str, float]],
) -> None:
    """An upload that comes an hour late looks the same."""
    assert {known["misdated"] for fault, known in needs_ms.items() if may_move(fault)} == {0}
    assert needs_ms[Fault("rows", -HOUR_US, 1)]["after"] > 3_000_000


def honest(kind: str, batch: int) -> list[Row]:
    """Return the rows of a batch of a stream with a large delay of some kind and right clocks."""
    now_us = START_US + batch * TRIGGER_US
    usual = [("0", now_us - number * SECOND) for number in range(10)]
    if kind == "an upload an hour late" and batch % 20 == 10:
        return usual + [("1", now_us - HOUR_US - number * SECOND) for number in range(100)]
    if kind == "a stall and its backlog" and 20 <= batch < 40:
        return [] if batch < 39 else [("0", now_us - number * SECOND) for number in range(40)]
    if kind == "a backlog read again" and batch >= 20:
        return [("0", now_us - DAY_US + (batch - 20) * HOUR_US // 3)]
    return usual


@pytest.mark.parametrize(
    "kind", ["an upload an hour late", "a stall and its backlog", "a backlog read again", "a way"]
)
def test_no_honest_delay_is_taken_for_a_wrong_clock(database_url: str, kind: str) -> None:
    """Nor is a report that waited in its driver for an hour, or one that was ten seconds on its way."""
    database = open_empty(database_url)
    job = FaultyJob(Fault())
    with database.write() as session:
        for batch in range(60):
            sent_us = START_US + batch * TRIGGER_US + (HOUR_US if 30 <= batch < 40 else SECOND)
            report = replace(job.report(batch, honest(kind, batch)), sent_us=sent_us)
            take_reports(session, [report], sent_us + (10 * SECOND if kind == "a way" else 0))
        stored = session.execute(
            select(
                func.sum(ReportRow.misdated_rows),
                func.max(func.abs(ReportRow.driver_ahead_us)),
                func.max(ReportRow.rows_ahead_us),
            )
        ).one()
    database.close()
    assert tuple(stored) == (0, 0, None)


def run(job: RolledJob, batches: int, *, driver_us: int | None = 0, rows_us: int = 0) -> None:
    """Report batches whose clocks are off; of a driver that does not say when it sent them where that is None."""
    for _ in range(batches):
        rows = [("0", job.at_us + rows_us - number * SECOND // 4) for number in range(60)]
        off_us = driver_us or 0
        sent_us = None if driver_us is None else job.at_us + SECOND // 2 + off_us
        job.report(rows, started_us=job.at_us + off_us, sent_us=sent_us)


def said_of(job: RolledJob) -> str:
    return "".join(each["detail"] for each in job.status()["conditions"] if each["type"] == "ClockWrong")


DRIVER, ROWS = "the driver's clock is 1 h ", "rows of partition '0' are dated up to 59 min 59 s ahead of "


@pytest.mark.parametrize(
    ("clocks", "said"),
    [
        ({}, []),
        ({"driver_us": None}, []),
        (
            {"driver_us": HOUR_US},
            [DRIVER + "ahead of this controller's", "the times of its rows are plausible"],
        ),
        (
            {"driver_us": -HOUR_US},
            [DRIVER + "behind this controller's", "the times of its rows are plausible"],
        ),
        (
            {"rows_us": HOUR_US},
            [ROWS + "the clocks of the driver and of this controller, which agree: the clocks of"],
        ),
        (
            {"driver_us": None, "rows_us": HOUR_US},
            [ROWS + "this controller's clock, and the driver's is not known"],
        ),
        (
            {"driver_us": HOUR_US, "rows_us": HOUR_US},
            [
                DRIVER
                + "ahead of this controller's, and "
                + ROWS
                + "it, too: both are wrong, or this controller's is"
            ],
        ),
        (
            {"driver_us": -HOUR_US, "rows_us": -HOUR_US},
            [DRIVER + "behind this controller's", "up to 1 h 1 s behind it, too: both are wrong"],
        ),
        (
            {"driver_us": DAY_US, "rows_us": HOUR_US},
            [
                "the driver's clock is 1 d ahead of",
                "; " + ROWS + "it: the clocks of their senders are wrong, too",
            ],
        ),
    ],
)
def test_the_clock_that_is_wrong_is_named_with_by_how_much(
    controller: Controller, clocks: dict[str, Any], said: list[str]
) -> None:
    job = RolledJob(controller)
    run(job, 10, driver_us=None if clocks.get("driver_us", 0) is None else 0)
    run(job, 3, **clocks)
    assert all(each in said_of(job) for each in said), said_of(job)
    assert bool(said_of(job)) == bool(said)


def test_what_a_wrong_clock_loses_is_late_in_every_verdict_at_once_and_moves_no_bound(
    controller: Controller,
) -> None:
    """Once "exact 100 %, the whole budget left" stood beside rows that Spark dropped."""
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 990_000})
    run(job, 40)
    run(job, 20, driver_us=20 * HOUR_US, rows_us=20 * HOUR_US)
    before_ms = job.status()["recommended"]
    run(job, 40)
    controller.tick()
    controller.snapshot()
    status = job.status()
    assert "the watermark has followed a clock that was wrong and is 19 h" in said_of(job)
    completeness = status["completeness"]
    assert (completeness["exact"], completeness["late_min"]) == (True, 40 * 60), completeness
    budget = controller.get("/budget").json()["budget"]
    assert budget["remaining_ppm"] < 0
    (shown,) = controller.http.get("/v1/fleet").json()["streams"]
    assert shown["window_max_ppm"] == completeness["max_ppm"] < 990_000
    assert before_ms is None or status["recommended"]["bound_ms"] == before_ms["bound_ms"]
