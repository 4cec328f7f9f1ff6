"""The state of a partition, from what is stored of it and what a live driver says."""

from __future__ import annotations

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.controller.view.state.snapshots import state_of
from tidemark.models.evidence.slots import SLOT_US

NEWEST_US = 100 * SLOT_US
HORIZON = Horizon(1, 10 * SLOT_US // 1_000, ReportRow(seen_us=NEWEST_US, bound_ms=20_000))


def test_a_partition_that_trails_by_more_than_the_bound_in_use_is_behind() -> None:
    def state(behind_us: int | None) -> str:
        facts = PartitionFacts(
            partition="p",
            first_seen_us=NEWEST_US - SLOT_US,
            last_seen_us=NEWEST_US,
            batches=90,
            behind_us=behind_us,
            last_future_us=None,
            skewed=False,
            costs_ms=None,
            without_bound_ms=None,
            last_misdated_us=None,
            misdated_event_us=None,
        )
        return state_of(facts, HORIZON, None, None)

    assert [state(behind_us) for behind_us in (None, 20_000_000, 20_000_001)] == [
        "Active",
        "Active",
        "Behind",
    ]
