"""The table of stateful operators is true: each row on real Spark, by a query or more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import GroupedData

from tidemark.models.base.stateful import OPERATOR_RULES, Kept
from tidemark.models.evidence.ledger import Tally, judge
from tidemark.spark_jobs import adaptive_watermark, flush

from support.operator_runs import BOUND, LATE, RUNS, observe
from support.patience import PATIENCE_S
from support.soak import with_soak
from support.spark_streams import RecordingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OFTEN_WRONG = (
    "transformWithState (None): keeps all",
    "aggregate (session among its keys, complete mode): counts",
    "dropDuplicates (event time among its keys): before a count in complete mode",
    "join (range of event times): leftSemi",
)
"""Those of which the ledger was wrong while it knew an operator by its name, and a query by its output mode."""

ONLY_AT_FIRST, LONGER, ALWAYS, NEVER = (
    (True, False, False, False),
    (True, True, False, False),
    (True, True, True, True),
    (False, False, False, False),
)
KEPT: dict[Kept, tuple[bool, ...]] = {
    "watermark": ONLY_AT_FIRST,
    "watermark + bound": LONGER,
    "watermark + range": LONGER,
    "keys": ALWAYS,
    "ever": ALWAYS,
    "one row": NEVER,
}
"""Whether rows are in the state as they came, with a watermark past their keys, by bound and range later, for good."""


def test_each_row_of_the_table_has_a_query() -> None:
    assert {(run.operator, run.case) for run in RUNS.values()} == OPERATOR_RULES.keys()


@pytest.mark.versions
@pytest.mark.soak
@pytest.mark.parametrize("name", RUNS)
def test_spark_does_what_the_table_says(
    spark: SparkSession, tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Rows at or below W(n-1) are late, and those at or below W(n) alone are not."""
    run = RUNS[name]
    if run.needs is not None and not hasattr(GroupedData, run.needs):
        pytest.skip(f"this Spark has no {run.needs}")
    rule = OPERATOR_RULES[run.operator, run.case]
    seen = observe(spark, tmp_path, run)
    if run.watched:
        record_property("observed", f"{run.operator}|{run.case}|{seen.text}")

    assert (seen.late_missing, seen.between_missing) == (0 if rule.late_by is None else len(LATE), 0)
    if rule.kept == "function":
        assert (seen.kept == ALWAYS) is not run.forgets
    elif run.watched:
        assert seen.kept == KEPT[rule.kept]


@pytest.mark.long
@pytest.mark.parametrize("name", with_soak(RUNS, RUNS.keys() - {*OFTEN_WRONG}))
def test_the_ledger_has_the_rows_that_the_sink_did_not_get_or_says_that_spark_drops_none(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    run, sink = RUNS[name], RecordingSink()

    def watched(df: DataFrame, side: int) -> DataFrame:
        return df.transform(
            adaptive_watermark("ts", BOUND, stream=f"in-{side}", job="job", granule="1 ms", sink=sink)
        )

    seen = observe(spark, tmp_path, run, watched)
    assert flush(PATIENCE_S)
    of_first = [report for report in sink.reports if report.stream == "in-0"]
    judged = [judge(report) for report in of_first]
    late = sum((each.total for each in judged), Tally())

    assert of_first
    why = {report.contradiction for report in of_first}
    if why != {None}:
        assert seen.late_missing == 0, why
        assert late.rows == 0
    else:
        assert (late.late_min, late.late_max) == (seen.late_missing + seen.between_missing,) * 2
        assert not any(each.unjudged_rows for each in judged)
