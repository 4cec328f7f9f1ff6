"""What ``tidemark curve --grace`` says is what ``late=revise`` counts on the real engine, with and without grace."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from tidemark.controller.lab.traces.format import Trace, write_trace
from tidemark.controller.tools.cli import app
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import flush

from support.patience import PATIENCE_S
from support.revised_job import start_revised
from support.spark_streams import EPOCH_US, RecordingSink, Row, write_batch
from support.streams import SECOND
from support.versions import WindowVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TRIGGER_S, BOUND_S, GRACES_S = 5, 5, (5, 15)
CLOSING_US = EPOCH_US + 3_600 * SECOND


def textbook_like() -> list[tuple[int, int]]:
    """Return event and arrival times as in the textbook's stream, with a row that closes all windows at the end.

    3,000 events in 30 s, exponential delays of mean 6 s capped at 25 s.
    """
    draw = random.Random(7)
    events = [EPOCH_US + number * SECOND // 100 for number in range(3_000)]
    found = [(event, event + round(min(draw.expovariate(1 / 6), 25) * SECOND)) for event in events]
    last_us = max(arrival for _, arrival in found)
    return sorted([*found, (CLOSING_US, last_us + TRIGGER_S * SECOND)], key=lambda each: each[1])


def on_the_curve(path: Path, rows: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return late rows and completeness by grace in seconds, as the command has it."""
    event, arrival = np.array(rows, np.int64).T
    write_trace(path, Trace(event, arrival, np.zeros(len(event), np.int32), ("only",)))
    graces = ",".join(f"{each}s" for each in (0, *GRACES_S))
    options = ["--window", "10s", "--bounds", str(BOUND_S), "--grace", graces, "--trigger", f"{TRIGGER_S}s"]
    result = CliRunner().invoke(app, ["curve", str(path), *options, "--json"])
    assert result.exit_code == 0, result.output
    (point,) = json.loads(result.stdout)["points"]
    return {
        each["grace_us"] // SECOND: (each["late"], each["completeness_ppm"]) for each in point["corrected"]
    }


def revised(
    spark: SparkSession, folder: Path, batches: dict[int, list[Row]], grace_s: int
) -> tuple[list[Report], list[WindowVersion]]:
    """Run the query; return its reports, and the final versions that it put out."""
    for number, some in batches.items():
        write_batch(folder / "in", number, some)
    sink = RecordingSink()
    put_out: dict[int, list[WindowVersion]] = {}
    query = start_revised(
        spark,
        folder,
        tumbling("10 seconds"),
        sink,
        lambda versions, number: put_out.update({number: versions}),
        lambda _: None,
        bound_s=BOUND_S,
        grace_s=grace_s,
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    return sink.reports, [each for versions in put_out.values() for each in versions if each.is_final]


def test_late_rows_after_each_grace_are_those_of_the_real_query_and_its_final_versions_hold_all_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = textbook_like()
    expected = on_the_curve(tmp_path / "trace.parquet", rows)
    first_us = rows[0][1]
    batches: dict[int, list[Row]] = {}
    for number, (event, arrival) in enumerate(rows):
        slot = (arrival - first_us) // (TRIGGER_S * SECOND)
        batches.setdefault(slot, []).append(Row(number, 0, event))
    assert [*batches] == list(range(len(batches))), "Spark runs no batch for a slot without rows here"

    for grace_s in GRACES_S:
        reports, final = revised(spark, tmp_path / str(grace_s), batches, grace_s)
        judged = [judge(report) for report in reports]
        late = sum(each.total.late_min for each in judged)
        dropped = late - sum(each.corrected_min for each in judged)

        assert late == expected[0][0] >= 50
        assert dropped == expected[grace_s][0]
        # All windows are final but the one of the row that closes them.
        assert sum(len(each.ids) for each in final) == len(rows) - 1 - dropped
        assert expected[grace_s][1] == (len(rows) - dropped) * 1_000_000 // len(rows)
    assert expected[0][0] > expected[5][0] > 0 == expected[15][0]
