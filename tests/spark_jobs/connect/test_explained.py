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


TAP = "CollectMetrics tidemark:clicks:0, [to_json(...) AS tap#9]"
WATERMARK = "EventTimeWatermark 94e21a72, ts#4: timestamp, 10 seconds"
IN_WINDOW = (
    "*(2) Filter (((isnotnull(window#73-T10000ms.start) AND isnotnull(window#73-T10000ms.end)) AND "
    "(ts#52-T10000ms >= window#73-T10000ms.start)) AND (ts#52-T10000ms < window#73-T10000ms.end))"
)
TIMED = "*(2) Filter isnotnull(ts#4-T10000ms)"


def _printed(*nodes: str) -> str:
    below = [
        "*(2) HashAggregate(keys=[window#23], functions=[partial_count(1)])",
        "*(2) Project [ts#4]",
        *nodes,
    ]
    lines = [f"StateStoreRestore [window#23-T5000ms], {STATE} 2", *below, "LocalTableScan <empty>, [ts#4]"]
    return "== Physical Plan ==\n" + "\n".join(
        f"{'   ' * depth}+- {line}" for depth, line in enumerate(lines)
    )


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ([TIMED, WATERMARK, "*(1) Project [ts#4]", TAP], None),
        ([IN_WINDOW, "*(2) Expand [[named_struct(...)]]", TIMED, WATERMARK, TAP], None),
        ([TIMED, WATERMARK, "*(1) Filter (isnotnull(id#190L) AND (id#190L > 3))", TAP], "a filter"),
        (
            [
                "*(2) Filter ((ts#4-T10000ms > 2020-01-01 00:00:00) AND isnotnull(ts#4-T10000ms))",
                WATERMARK,
                TAP,
            ],
            "a filter",
        ),
        (
            ["*(2) Generate explode(array(id#3L)), [ts#4]", TIMED, WATERMARK, TAP],
            "a generator such as explode",
        ),
        (
            ["*(3) BroadcastHashJoin [id#287L], [id#0L], Inner, BuildRight", WATERMARK, TAP],
            "a join with a table",
        ),
        (["MapInPandas <lambda>(id#209L), [id#216L], false", WATERMARK, TAP], "mapInPandas"),
        (["Anything else", WATERMARK, TAP], "Anything"),
        ([TIMED, WATERMARK, TAP, "*(1) Filter (id#190L > 3)"], None),
    ],
)
def test_what_changes_rows_between_a_tap_and_the_operator_is_seen_in_an_explanation(
    nodes: list[str], what: str | None
) -> None:
    found = read_explained(_printed(*nodes))

    assert found is not None
    assert found.changed == ({} if what is None else {"tidemark:clicks:0": what})
