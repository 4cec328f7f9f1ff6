"""What the text of ``explain()`` says, as Spark 4.2 printed it; that a server prints it so, ``test_connect`` shows."""

from __future__ import annotations

import pytest

from tidemark.spark_jobs.connect.explained import Explained, read_explained

STATE = (
    "state info [ checkpoint = file:/jobs/a, b/state, runId = c93a1926, opId = 0, ver = 4, numPartitions = 1]"
)
OPERATORS = {
    "append": f"StateStoreSave [window#23-T5000ms], {STATE} stateStoreCkptIds = None, Append, 17672, 17675, 2",
    "update": f"StateStoreSave [window#23-T5000ms], {STATE} stateStoreCkptIds = None, Update, 17672, 17675, 2",
    "complete": f"StateStoreSave [window#23-T5000ms], {STATE} stateStoreCkptIds = None, Complete, 17672, 17675, 2",
}


@pytest.mark.parametrize("mode", OPERATORS)
def test_an_aggregate_shows_its_output_mode_and_where_its_checkpoint_is(mode: str) -> None:
    """In complete mode no row is late, so a wrong one would make a wrong ledger."""
    restore = f"StateStoreRestore [window#23-T5000ms], {STATE} stateStoreCkptIds = None, 2"
    text = f"== Physical Plan ==\n+- {OPERATORS[mode]}\n   +- {restore}\n"

    assert read_explained(text) == Explained("file:/jobs/a, b", mode)  # type: ignore[arg-type]  # a mode


def test_an_operator_without_an_output_mode_is_not_in_complete_mode() -> None:
    """Spark has complete mode for aggregates alone."""
    text = f"+- StreamingDeduplicateWithinWatermark [id#5L], {STATE} stateStoreCkptIds = None, 17672, 17675"

    assert read_explained(text) == Explained("file:/jobs/a, b", "append")


@pytest.mark.parametrize(
    "text", ["No physical plan. Waiting for data.", "== Physical Plan ==\n+- LocalTableScan\n"]
)
def test_a_query_that_shows_no_stateful_operator_is_unknown(text: str) -> None:
    """Nobody knows then what became of its rows."""
    assert read_explained(text) is None
