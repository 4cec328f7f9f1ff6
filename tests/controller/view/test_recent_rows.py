"""What the newest reports add up to: the same as reports counted one by one, in slots or not yet."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.view.state.recent_reports import QUARTER_US, load_recent_rows

from support.controller_app import Controller
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND

WINDOWS_S = (300, 1_800, 3_600, 86_400)


# With some in slots and others not, every statement is asked of PostgreSQL too.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "looked"), [("sqlite", 0), ("sqlite", 150), ("sqlite", 200), ("postgresql", 150)]
)
def test_sums_are_those_of_the_reports_whether_they_are_counted_in_slots_or_not(
    request: pytest.FixtureRequest, kind: str, looked: int
) -> None:
    """The first ``looked`` reports are counted in slots, the others wait."""
    url = request.getfixturevalue("database_url" if kind == "sqlite" else "new_postgres_url")
    reports = query_reports(exponential_batches(200, 20, mean_delay_s=6), interval_us=30 * SECOND)
    dice = random.Random(3)
    reports = [replace(each, rows=each.rows + dice.randrange(3)) for each in reports]
    with Controller(url) as controller:
        controller.clock.now_us = reports[-1].started_us + 10 * SECOND
        controller.report_all(reports[:looked])
        if looked:
            controller.snapshot()
        controller.report_all(reports[looked:])
        now_us = controller.clock.now_us
        with controller.service.database.read() as session:
            ((_, found),) = load_recent_rows(session, WINDOWS_S, now_us).items()
            rows = session.query(ReportRow).all()
    for window_s, counted in found.by_window_s.items():
        start_us = now_us - window_s * SECOND
        # Slots count from the edge of the minute or the hour on.
        widest_us = start_us - (3_600 if window_s > 21_600 else 60) * SECOND
        narrow = [row for row in rows if row.seen_us >= start_us]
        wide = [row for row in rows if row.seen_us >= widest_us]
        assert sum(row.pairs for row in narrow) <= counted.judged <= sum(row.pairs for row in wide)
        assert sum(row.late_max for row in narrow) <= counted.late <= sum(row.late_max for row in wide)
    recent = [row for row in rows if row.seen_us >= now_us - QUARTER_US]
    assert found.judged == sum(row.pairs for row in recent)
    assert found.uncounted_rows == sum(row.uncounted_rows for row in recent) > 0
    assert found.future_rows == 0
    before = max((row for row in rows if row.seen_us <= now_us - QUARTER_US), key=lambda row: row.seen_us)
    assert found.watermark_then_ms == before.watermark_ms


def test_no_part_of_the_table_of_rollups_is_read_that_is_not_summed(controller: Controller) -> None:
    """SQLite's plan: each rollup by its stream, width and time, never the table from end to end."""
    database = controller.service.database
    statements: list[tuple[str, Any]] = []
    with database.read() as session:
        engine = session.get_bind()
        event.listen(
            engine,
            "before_cursor_execute",
            lambda _c, _k, text, values, *_: statements.append((text, values)),
        )
        load_recent_rows(session, WINDOWS_S, START_US)
        asked = [(text, values) for text, values in statements if "rollups" in text]
        assert asked
        for text, values in asked:
            for *_, step in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values):
                assert (
                    "rollups" not in step
                    or "(stream_id=? AND width_us=? AND slot_us>? AND slot_us<?)" in step
                )


def test_a_stream_without_reports_is_left_out(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    with controller.service.database.read() as session:
        assert load_recent_rows(session, WINDOWS_S, START_US) == {}
