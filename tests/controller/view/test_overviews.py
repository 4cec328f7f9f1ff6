"""Snapshots of streams: which partitions are skewed, idle, behind or gone, who shows it, and that it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from tidemark.controller.base.db.leases import Lease
from tidemark.controller.base.db.tables import (
    EventRow,
    OffsetRow,
    OverviewRow,
    PartitionRow,
    ReportRow,
    StreamRow,
)
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.server.process.loop import snapshot_seconds
from tidemark.controller.view.state.overviews import QUIET_US, SOON_US, WINDOWS_US
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import LiveState

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

BATCHES = exponential_batches(40, 400, slow=3, partitions=8)
REPORTS = query_reports(BATCHES)
FINE = query_reports(exponential_batches(40, 400, partitions=8))


def partitions(controller: Controller) -> dict[str, dict[str, Any]]:
    answer = controller.get("/partitions", params={"limit": 1_000})
    assert answer.status_code == 200, answer.text
    return {row["partition"]: row for row in answer.json()["partitions"]}


def conditions(controller: Controller) -> dict[str, str]:
    return {condition["type"]: condition["detail"] for condition in controller.status()["conditions"]}


def events(controller: Controller) -> list[tuple[str, int]]:
    found = controller.get("/events", params={"limit": 100}).json()["events"]
    return [(event["kind"], event["count"]) for event in found if event["kind"].startswith("Partition")]


@on_sqlite_alone("each_url")
def test_a_skewed_partition_appears_everywhere_with_its_cost(either: Controller) -> None:
    either.put("/slo", {"target_ppm": 950_000})
    either.report_all(REPORTS)
    either.tick()
    either.snapshot()
    page = either.get("/partitions").json()
    rows = {row["partition"]: row for row in page["partitions"]}
    assert [name for name, row in rows.items() if row["skewed"]] == ["3"]
    body = rows["3"]
    assert body["costs_ms"] == page["bound_ms"] - body["without_bound_ms"]
    assert body["without_bound_ms"] < 5_000
    assert page["bound_ms"] > 25_000
    assert body["text"].startswith("partition '3' costs ")
    assert body["skewed_us"] == either.clock()
    assert all(rows[name]["text"] is None for name in rows if name != "3")
    # What the recommendation began with is what costs are held against.
    status = either.status()
    assert page["bound_ms"] == status["recommended"]["steps"][0]["bound_ms"]
    assert conditions(either)["PartitionSkewed"] == body["text"]
    (row,) = either.http.get("/v1/fleet").json()["streams"]
    assert row["skewed"] == {
        "partition": "3",
        "without_bound_ms": body["without_bound_ms"],
        "costs_ms": body["costs_ms"],
        "text": body["text"],
    }
    assert row["partitions"]["skewed"] == 1
    assert "PartitionSkewed" in row["alerts"]
    assert events(either) == [("PartitionSkewed", 1)]
    (job,) = either.http.get("/v1/jobs").json()["jobs"]
    assert job["worst"]["type"] == "PartitionSkewed"


@on_sqlite_alone("each_url")
def test_partitions_that_are_alike_are_not_skewed(either: Controller) -> None:
    either.put("/slo", {"target_ppm": 950_000})
    either.report_all(FINE)
    either.snapshot()
    assert not any(row["skewed"] for row in partitions(either).values())
    assert "PartitionSkewed" not in conditions(either)
    assert events(either) == []


def test_of_two_partitions_neither_is_skewed(controller: Controller) -> None:
    controller.report_all(query_reports(exponential_batches(40, 400, slow=1, partitions=2)))
    controller.snapshot()
    assert not any(row["skewed"] for row in partitions(controller).values())


def test_a_stream_without_an_slo_gets_snapshots_too(controller: Controller) -> None:
    controller.report_all(REPORTS)
    controller.snapshot()
    page = controller.get("/partitions").json()
    assert page["share_ppm"] == 990_000
    assert [row["partition"] for row in page["partitions"] if row["skewed"]] == ["3"]
    (row,) = controller.http.get("/v1/fleet").json()["streams"]
    assert (row["target_ppm"], row["budget_remaining_ppm"]) == (None, None)
    assert row["worst"]["type"] == "PartitionSkewed"


@on_sqlite_alone("each_url")
def test_a_partition_heals_when_its_late_rows_have_left_the_horizon_with_one_event(
    either: Controller,
) -> None:
    either.put("/slo", {"target_ppm": 950_000, "horizon_ms": 120_000})
    either.report_all(REPORTS)
    either.snapshot()
    either.snapshot()
    later = [
        replace(
            report,
            batch_id=report.batch_id + len(REPORTS),
            started_us=report.started_us + 600 * SECOND,
            run_id="second",
            late_base_ms=(report.late_base_ms or START_US // 1_000) + 600_000,
            max_event_time_us=(report.max_event_time_us or 0) + 600 * SECOND,
            counts=GranuleCounts.of(
                replace(part, granules=tuple(granule + 600 for granule in part.granules))
                for part in report.counts.by_partition()
            ),
        )
        for report in FINE
    ]
    either.report_all(later)
    either.snapshot()
    rows = partitions(either)
    assert not any(row["skewed"] for row in rows.values())
    assert rows["3"]["skewed_us"] is None
    assert "PartitionSkewed" not in conditions(either)
    assert events(either) == [("PartitionHealed", 1), ("PartitionSkewed", 1)]


def test_a_snapshot_with_nothing_new_writes_no_event_and_keeps_the_time(controller: Controller) -> None:
    controller.report_all(REPORTS)
    controller.snapshot()
    since = partitions(controller)["3"]["skewed_us"]
    for _ in range(3):
        controller.clock.now_us += 60 * SECOND
        controller.snapshot()
    assert partitions(controller)["3"]["skewed_us"] == since
    assert events(controller) == [("PartitionSkewed", 1)]


def test_a_snapshot_over_an_earlier_one_is_what_it_is_from_scratch(either: Controller) -> None:
    either.put("/slo", {"target_ppm": 950_000})
    either.report_all(REPORTS[:30])
    either.tick()
    either.snapshot()
    either.report_all(REPORTS[30:])
    either.tick()
    # Windows are looked for again only after some time.
    either.clock.now_us += WINDOWS_US
    either.snapshot()
    moved = written(either)
    with either.service.database.write() as session:
        session.execute(delete(OverviewRow))
        session.execute(update(PartitionRow).values(pairs=0, need_ms=None, costs_ms=None, state=None))
    either.snapshot()
    assert written(either) == moved


def written(controller: Controller) -> list[dict[str, Any]]:
    """All that snapshots have written, in an order that is always the same."""
    with controller.service.database.read() as session:
        tables = (OverviewRow.__table__, PartitionRow.__table__)
        rows = (dict(row) for table in tables for row in session.execute(select(table)).mappings())
        return sorted(rows, key=repr)


SHARES = ("completeness_min", "completeness_max", "window_min", "window_max", "budget_remaining")
"""What a list says of how complete a stream is, in parts per million."""


def listed(controller: Controller) -> tuple[list[str], str | None, str | None]:
    """What the fleet's list says of the one stream, its totals, and the list of jobs."""
    fleet = controller.http.get("/v1/fleet").json()
    (row,), (total,) = fleet["streams"], fleet["totals"]["worst"]
    (job,) = controller.http.get("/v1/jobs").json()["jobs"]
    assert (row["worst"] or {}).get("type") == total["type"]
    return row["alerts"], total["type"], None if job["worst"] is None else job["worst"]["type"]


@pytest.mark.parametrize("silent_s", [0, 9, 11, 119, 121, 3_600, 366 * 86_400])
def test_lists_say_as_the_status_does_whether_reports_come_however_old_the_snapshot(
    each_url: str, silent_s: int
) -> None:
    with Controller(each_url) as controller:
        controller.put("/slo", {"target_ppm": 900_000})
        for report in FINE:
            controller.clock.now_us += SECOND
            controller.report(report)
        assert listed(controller) == (["VerdictOld"], "VerdictOld", "VerdictOld")
        controller.clock.now_us += 3_600 * SECOND
        assert listed(controller)[0] == ["NoRecentReport", "VerdictOld"]
        controller.clock.now_us -= 3_600 * SECOND
        controller.snapshot()
        last_us = controller.clock.now_us
        controller.clock.now_us += silent_s * SECOND
        alerts, total, of_job = listed(controller)
        assert total == of_job == next(iter(alerts), None)
        assert ("NoRecentReport" in alerts) == ("NoRecentReport" in conditions(controller))
        assert ("VerdictOld" in alerts) == (silent_s > 120)
        (row,) = controller.http.get("/v1/fleet").json()["streams"]
        shares = [row[f"{share}_ppm"] for share in SHARES]
        assert [share is None for share in shares] == [silent_s > 120] * len(SHARES)
        # One report ends the silence, without a snapshot, and a pause says that it is meant.
        controller.put("/policy", {"mode": "OnRestart", "paused": True})
        assert "NoRecentReport" not in listed(controller)[0]
        controller.put("/policy", {"mode": "OnRestart", "paused": False})
        newest = replace(FINE[-1], batch_id=FINE[-1].batch_id + 1, started_us=controller.clock.now_us)
        controller.report(newest)
        assert "NoRecentReport" not in listed(controller)[0]
        (row,) = controller.http.get("/v1/fleet").json()["streams"]
        assert row["last_batch_us"] == controller.clock.now_us
        assert row["updated_us"] == last_us


def test_thresholds_are_set_from_outside(database_url: str) -> None:
    with Controller(database_url, skew_amount_ms=60_000) as controller:
        controller.report_all(REPORTS)
        controller.snapshot()
        rows = partitions(controller)
    assert rows["3"]["costs_ms"] > 20_000
    assert not rows["3"]["skewed"]


def test_a_restart_and_another_process_show_the_same_snapshot(either: Controller, tmp_path: Path) -> None:
    either.put("/slo", {"target_ppm": 950_000})
    either.report_all(REPORTS)
    # The other process takes its share of the streams, and decides the same.
    either.tick()
    either.snapshot()
    paths = [
        "/v1/fleet",
        "/v1/jobs/job/streams/stream/partitions",
        "/v1/jobs/job/streams/stream/history",
        "/v1/jobs/job/streams/stream/heatmap",
        "/v1/jobs/job/streams/stream/preview?bound_ms=7000",
        "/v1/jobs/job/streams/stream/curve",
    ]
    before = [either.http.get(path).json() for path in paths]
    with Controller(either.service.settings.database_url) as again:
        assert [again.http.get(path).json() for path in paths] == before


# -- states --------------------------------------------------------------------------------------------------------


def rows_of(n: int, names: Sequence[str], late_s: float = 0.0) -> list[Row]:
    return [(name, START_US + n * SECOND - round(late_s * SECOND)) for name in names]


def test_idle_behind_and_gone_partitions_are_distinguished(controller: Controller) -> None:
    names = ("a", "b", "c", "d")
    batches = []
    for n in range(400):
        rows = rows_of(n, ("a", "b"))
        rows += rows_of(n, ("c",)) if n < 20 else []
        rows += rows_of(n, ("d",), late_s=12)
        batches.append(rows)
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(query_reports(batches, bound_ms=5_000))
    controller.snapshot()
    states = {name: row["state"] for name, row in partitions(controller).items()}
    assert states == {"a": "Active", "b": "Active", "c": "Idle", "d": "Behind"}
    (row,) = controller.http.get("/v1/fleet").json()["streams"]
    assert row["partitions"] == {"total": len(names), "idle": 1, "behind": 1, "skewed": 1, "future": 0}
    assert "PartitionsSilent" in row["alerts"]
    controller.put("/slo", {"target_ppm": 900_000, "horizon_ms": 60_000})
    controller.snapshot()
    assert partitions(controller)["c"]["state"] == "Gone"
    (row,) = controller.http.get("/v1/fleet").json()["streams"]
    assert row["partitions"]["total"] == len(names) - 1


def test_in_live_the_driver_says_what_is_behind_and_what_is_idle(controller: Controller) -> None:
    live = LiveState(ceiling_ms=5_000, control_ms=None, reason="r", behind=("2",), idle=("5",))
    controller.report_all([*REPORTS[:-1], replace(REPORTS[-1], live=live)])
    controller.snapshot()
    states = {name: row["state"] for name, row in partitions(controller).items()}
    # Number 3 trails by 30 s, but in Live the plan's bound is only the ceiling.
    assert states == {**dict.fromkeys("013467", "Active"), "2": "Behind", "5": "Idle"}


def test_partitions_with_future_dated_rows_are_marked_within_the_horizon(controller: Controller) -> None:
    newest = REPORTS[-1]
    future = tuple(3 if name == "6" else 0 for name in newest.counts.partitions)
    ahead = replace(newest.counts, future_rows=future)
    controller.report_all([*REPORTS[:-1], replace(newest, counts=ahead)])
    controller.snapshot()
    assert [name for name, row in partitions(controller).items() if row["future"]] == ["6"]
    (row,) = controller.http.get("/v1/fleet").json()["streams"]
    assert row["partitions"]["future"] == 1
    assert "FutureRows" in row["alerts"]


# -- when it is done, and by whom ----------------------------------------------------------------------------------


def test_streams_with_something_new_get_a_snapshot_soon_and_the_rest_once_a_minute(
    controller: Controller,
) -> None:
    overviews, clock = controller.service.overviews, controller.clock
    controller.report_all(REPORTS[:10])
    assert overviews.tick(clock()) == 1
    assert overviews.tick(clock()) == 0
    controller.report_all(REPORTS[10:20])
    assert overviews.tick(clock() + SOON_US - 1) == 0
    assert overviews.tick(clock() + SOON_US) == 1
    assert overviews.tick(clock() + SOON_US + QUIET_US - 1) == 0
    assert overviews.tick(clock() + SOON_US + QUIET_US) == 1


def test_a_tick_ends_in_time_and_streams_that_waited_longest_come_first(controller: Controller) -> None:
    for job in "abc":
        controller.http.put(f"/v1/jobs/{job}/streams/s/slo", json={"target_ppm": 900_000})
    overviews, now_us = controller.service.overviews, controller.clock()
    looked = []
    overviews.snapshot = lambda stream_id, _: looked.append(stream_id)  # type: ignore[method-assign, assignment]
    ticks = iter(range(100))
    overviews._steady = lambda: float(next(ticks))
    while len(looked) < 3:
        assert overviews.tick(now_us, max_seconds=1.5) == 1
    assert len(set(looked)) == 3


@pytest.mark.parametrize(("took", "wanted"), [(0.0, 2.5), (3.0, 1.0), (4.5, 0.5), (60.0, 0.5)])
def test_snapshots_take_half_of_what_decisions_leave_of_a_tick_and_a_little_always(
    took: float, wanted: float
) -> None:
    assert snapshot_seconds(5.0, took) == wanted


def test_a_snapshot_rolls_up_all_that_waits(controller: Controller) -> None:
    """What is left is read from the stored bodies by each reader."""
    controller.report_all(query_reports(exponential_batches(230, 2)))
    controller.snapshot()
    with controller.service.database.read() as session:
        newest = session.scalars(select(func.max(ReportRow.id))).one()
        assert session.scalars(select(OffsetRow.last_report_id)).one() == newest


def test_without_the_lease_no_snapshot_is_taken_and_a_lost_lease_writes_nothing(
    controller: Controller,
) -> None:
    controller.report_all(REPORTS)
    overviews, leases = controller.service.overviews, controller.service.decider.leases
    with controller.service.database.read() as session:
        stream_id = session.scalars(select(StreamRow.id)).one()
    held = leases.lease_of(stream_id)
    assert held is not None
    leases._held[held.shard] = Lease(held.shard, held.fencing - 1)
    with pytest.raises(LeaseLostError):
        overviews.snapshot(stream_id, controller.clock())
    assert overviews.tick(controller.clock()) == 0
    del leases._held[held.shard]
    assert overviews.tick(controller.clock()) == 0
    with controller.service.database.read() as session:
        assert session.get(OverviewRow, stream_id) is None
        assert session.scalars(select(func.count()).where(PartitionRow.skewed)).one() == 0
        kinds = session.scalars(select(EventRow.kind)).all()
    assert "PartitionSkewed" not in kinds


def test_a_stream_whose_lease_was_lost_and_comes_back_gets_a_snapshot_at_once(controller: Controller) -> None:
    controller.report_all(REPORTS)
    overviews, leases = controller.service.overviews, controller.service.decider.leases
    lease = leases.lease_of(1)
    assert lease is not None
    leases._held[lease.shard] = Lease(lease.shard, lease.fencing - 1)
    assert overviews.tick(controller.clock()) == 0
    leases._held[lease.shard] = lease
    assert overviews.tick(controller.clock()) == 1


def test_a_failed_snapshot_does_not_stop_the_others(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in "abc":
        controller.http.put(f"/v1/jobs/{job}/streams/s/slo", json={"target_ppm": 900_000})
    overviews = controller.service.overviews
    snapshot = overviews.snapshot

    def broken(stream_id: int, now_us: int) -> None:
        if stream_id == 2:
            raise RuntimeError("planted")
        snapshot(stream_id, now_us)

    monkeypatch.setattr(overviews, "snapshot", broken)
    assert overviews.tick(controller.clock()) == 2
