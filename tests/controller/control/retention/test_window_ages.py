"""How long it is stored how old windows were when their rows came."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from tidemark.controller.base.db.tables import LedgerKeyRow, WindowAgeRow

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.streams import SECOND


def test_ages_of_the_newest_six_hundred_windows_are_kept_and_the_ledger_of_all(tmp_path: Path) -> None:
    reports = query_reports(
        [[("p", START_US + n * 10 * SECOND)] for n in range(700)], interval_us=10 * SECOND
    )
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        controller.clock.now_us = START_US + 7_000 * SECOND
        controller.report_all(reports)
        assert controller.service.ticker._upkeep.run_upkeep(1, 10_000)[1]
        with controller.service.database.read() as session:
            oldest_us = session.scalars(select(func.min(WindowAgeRow.key_us))).one()
            assert oldest_us == -(-reports[-1].watermark_ms // 10_000) * 10 * SECOND - 6_000 * SECOND
            assert session.scalars(select(func.count()).select_from(LedgerKeyRow)).one() == 700
