"""The ledger against hand-computed cases and against a judge that looks at each row on its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, sliding, tumbling
from tidemark.models.evidence.completeness import LedgerCompleteness
from tidemark.models.evidence.ledger import Tally, judge
from tidemark.models.protocol.messages import Report

from support.oracles import Ledger, tallies_of
from support.streams import SECOND, operators, report_of, slow_keys

Row = tuple[str, int]
rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-30_000, 30_000)), max_size=25)
watermarks_ms = st.integers(-30, 40)


def pairs_of(operator: Operator, batch: list[Row]) -> list[Row]:
    """Return (partition, key) of each pair, from the definition."""
    return [(partition, key) for partition, time in batch for key in slow_keys(operator, time)]


def late_among(operator: Operator, batch: list[Row], watermark_ms: int) -> int:
    """Return how many pairs Spark's rule calls late, row by row."""
    return sum(key <= 1_000 * watermark_ms for _, key in pairs_of(operator, batch))


def ledger_of(*reports: Report) -> Ledger:
    ledger = Ledger()
    for report in reports:
        ledger.add(report)
    return ledger


# -- by hand -------------------------------------------------------------------------------------------------


def test_a_tumbling_window_is_late_once_the_watermark_reaches_its_end() -> None:
    """Windows of 10 s, W(n-1) = 20 s: rows at 3 s and 12 s end at 10 s and 20 s and are late; 20 s ends at 30 s."""
    batch = [("p", 3 * SECOND), ("p", 12 * SECOND), ("p", 12 * SECOND), ("p", 20 * SECOND)]
    report = report_of(batch, tumbling("10s"), late_watermark_ms=20_000, granule_us=SECOND)
    assert tallies_of(report) == {
        ("p", 10 * SECOND): Tally(1, 1, 1),
        ("p", 20 * SECOND): Tally(2, 2, 2),
        ("p", 30 * SECOND): Tally(1, 0, 0),
    }


def test_one_millisecond_less_and_the_window_is_not_late() -> None:
    """The rule is ``<=``, at the millisecond."""
    batch = [("p", 12 * SECOND)]
    report = report_of(batch, tumbling("10s"), late_watermark_ms=19_999, granule_us=SECOND)
    assert tallies_of(report) == {("p", 20 * SECOND): Tally(1, 0, 0)}


def test_a_row_of_a_sliding_window_can_be_late_for_one_window_and_not_for_another() -> None:
    """10 s every 5 s, row at 7 s, W(n-1) = 10 s: late for [0, 10), admitted to [5, 15)."""
    report = report_of([("p", 7 * SECOND)], sliding("10s", "5s"), late_watermark_ms=10_000, granule_us=SECOND)
    assert tallies_of(report) == {("p", 10 * SECOND): Tally(1, 1, 1), ("p", 15 * SECOND): Tally(1, 0, 0)}


def test_a_session_row_is_judged_by_its_own_end() -> None:
    """Gap 5 s, W(n-1) = 10 s: a row at 5 s is late even when one at 6 s would take it into a living session."""
    batch = [("p", 5 * SECOND), ("p", 6 * SECOND)]
    report = report_of(batch, SessionWindow(5 * SECOND), late_watermark_ms=10_000)
    assert tallies_of(report) == {("p", 10 * SECOND): Tally(1, 1, 1), ("p", 11 * SECOND): Tally(1, 0, 0)}


def test_a_granule_that_the_watermark_cuts_gives_an_interval() -> None:
    """Granule (0, 100 ms], W(n-1) = 50 ms: its rows may all be late or none."""
    batch = [("p", 20_000), ("p", 80_000), ("p", 150_000)]
    ledger = ledger_of(report_of(batch, RowLevel(), late_watermark_ms=50, granule_us=100_000))
    assert ledger.tallies == {("p", 100_000): Tally(2, 0, 2), ("p", 200_000): Tally(1, 0, 0)}
    completeness = ledger.completeness()
    assert (completeness.lower, completeness.upper, completeness.exact) == (1 / 3, 1.0, False)


def test_a_watermark_on_a_granules_edge_gives_a_number() -> None:
    """Live puts it there, so that row-level ledgers are exact at any granule."""
    batch = [("p", 20_000), ("p", 100_000), ("p", 100_001)]
    completeness = ledger_of(
        report_of(batch, RowLevel(), late_watermark_ms=100, granule_us=100_000)
    ).completeness()
    assert completeness == LedgerCompleteness(3, 2, 2, 0, 0)
    assert completeness.exact


# -- by a judge of single rows -------------------------------------------------------------------------------


@given(operators(1_000), st.lists(st.tuples(rows, watermarks_ms), max_size=4))
def test_at_millisecond_granules_the_ledger_equals_a_judge_of_each_row(
    operator: Operator, batches: list[tuple[list[Row], int]]
) -> None:
    """For every operator, window for window and partition for partition, over several batches."""
    ledger = Ledger()
    arrived: Counter[Row] = Counter()
    late: Counter[Row] = Counter()
    for batch_id, (batch, watermark_ms) in enumerate(batches):
        ledger.add(report_of(batch, operator, late_watermark_ms=watermark_ms, batch_id=batch_id))
        for partition, key in pairs_of(operator, batch):
            # A granule (i, i + 1 ms] of a row-level or session key is booked under its last microsecond.
            booked = key if operator.closed == "left" else -(-key // 1_000) * 1_000
            arrived[partition, booked] += 1
            late[partition, booked] += key <= 1_000 * watermark_ms
    assert ledger.tallies == {cell: Tally(arrived[cell], late[cell], late[cell]) for cell in arrived}
    assert ledger.completeness().exact


@pytest.mark.slow
@given(operators(10_000), rows, watermarks_ms)
def test_the_interval_contains_the_truth_wherever_the_watermark_cuts(
    operator: Operator, batch: list[Row], watermark_ms: int
) -> None:
    """At granules of 10 ms; and windows, which no watermark cuts, stay exact."""
    report = report_of(batch, operator, late_watermark_ms=watermark_ms, granule_us=10_000)
    completeness = ledger_of(report).completeness()
    late = late_among(operator, batch, watermark_ms)
    assert completeness.rows == len(pairs_of(operator, batch))
    assert completeness.late_min <= late <= completeness.late_max
    if operator.closed == "left" or (watermark_ms % 10 == 0 and not isinstance(operator, SessionWindow)):
        assert completeness.late_min == completeness.late_max


@given(operators(1_000), rows, rows.filter(bool), watermarks_ms)
def test_the_share_contains_the_truth_when_rows_could_not_be_counted(
    operator: Operator, counted: list[Row], uncounted: list[Row], watermark_ms: int
) -> None:
    """An uncounted row may stand for as many pairs as it has windows: counted as one, it would promise too much."""
    report = report_of(counted, operator, late_watermark_ms=watermark_ms, uncounted=uncounted)
    completeness = ledger_of(report).completeness()
    every = counted + uncounted
    truth = 1 - late_among(operator, every, watermark_ms) / len(pairs_of(operator, every))
    assert completeness.lower is not None
    assert completeness.upper is not None
    assert completeness.lower - 1e-12 <= truth <= completeness.upper + 1e-12
    assert completeness.unjudged_rows == len(uncounted)
    assert not completeness.exact


# -- what is not known ---------------------------------------------------------------------------------------


def test_rows_past_the_top_k_are_unjudged_to_the_row() -> None:
    """The overflow is a number, not a shrug."""
    report = report_of([("p", 5)], RowLevel(), late_watermark_ms=0, uncounted=[("p", 6), ("p", 7)])
    completeness = ledger_of(report).completeness()
    assert (completeness.rows, completeness.unjudged_rows) == (1, 2)
    assert (completeness.lower, completeness.upper) == (1 / 3, 1.0)


def test_an_unjudged_row_weighs_as_many_pairs_as_it_may_have_windows() -> None:
    """Windows of 10 s every 5 s, one row admitted to both of its windows and one uncounted: at the worst 2 of 4."""
    batch = [("p", 20 * SECOND)]
    report = report_of(batch, sliding("10s", "5s"), late_watermark_ms=5_000, uncounted=[("p", -20 * SECOND)])
    completeness = ledger_of(report).completeness()
    assert (completeness.lower, completeness.upper) == (0.5, 1.0)


def test_rows_without_a_time_are_not_unjudged() -> None:
    """No watermark calls them late, and they have no key: they are out of the share."""
    report = report_of([("p", 5)], RowLevel(), late_watermark_ms=0, rows=4, null_rows=3)
    assert ledger_of(report).completeness() == LedgerCompleteness(1, 0, 0, 0, 0)


def test_rows_whose_watermark_is_not_known_are_unjudged() -> None:
    """A listener that never learned W(n-1) must not guess 0, which would admit everything."""
    report = report_of([("p", 5), ("p", 6)], RowLevel(), late_watermark_ms=None, rows=3, null_rows=1)
    judgement = judge(report)
    assert judgement.tallies == {}
    assert judgement.unjudged_rows == 2


def test_rows_of_an_operator_that_spark_contradicts_are_unjudged() -> None:
    """It judges by another key than the one that the counts rest on."""
    report = report_of([("p", 5)], RowLevel(), late_watermark_ms=0, contradiction="Spark dropped more")
    judgement = judge(report)
    assert (judgement.tallies, judgement.unjudged_rows, judgement.total) == ({}, 1, Tally(0, 0, 0))


def test_the_first_key_is_the_lowest_and_none_without_a_judged_row() -> None:
    report = report_of([("p", 25 * SECOND), ("q", 3 * SECOND)], tumbling("10s"), late_watermark_ms=0)
    assert judge(report).first_key_us == 10 * SECOND
    assert judge(report_of([], tumbling("10s"), late_watermark_ms=0)).first_key_us is None


def test_the_share_lies_between_all_unjudged_rows_late_and_all_admitted() -> None:
    """6 of 10 pairs certainly late; 2 rows of up to 5 pairs each are not judged."""
    share = LedgerCompleteness(10, 6, 7, 2, 0, keys_per_row=5)
    assert (share.lower, share.upper) == (3 / 20, 14 / 20)


def test_where_spark_drops_nothing_no_row_is_late_whatever_the_watermark() -> None:
    """Also when the watermark was not learned."""
    for watermark_ms in (10**9, None):
        report = report_of([("p", 5)], tumbling("10s"), late_watermark_ms=watermark_ms, drops_late=False)
        assert tallies_of(report) == {("p", 10 * SECOND): Tally(1, 0, 0)}
        assert judge(report).unjudged_rows == 0
        assert (judge(report).corrected_min, judge(report).corrected_max) == (0, 0)


def test_the_output_mode_alone_makes_no_row_admitted() -> None:
    report = report_of([("p", 5)], SessionWindow(SECOND), late_watermark_ms=10**9, output_mode="complete")
    assert judge(report).total == Tally(1, 1, 1)


def test_a_gap_in_the_batches_makes_it_not_exact_by_so_many_batches() -> None:
    """Fifty lost batches held an unknown number of rows: completeness there is unknown, never 100 %."""
    batches = [report_of([("p", 5)], RowLevel(), late_watermark_ms=0, batch_id=number) for number in (0, 51)]
    completeness = ledger_of(*batches).completeness()
    assert completeness.missing_batches == 50
    assert not completeness.exact


def test_gaps_are_counted_within_a_query_and_not_between_queries() -> None:
    """A new checkpoint starts its ids at 0 again."""
    reports = [
        report_of([], RowLevel(), late_watermark_ms=0, query_id=query, batch_id=batch)
        for query, batch in (("one", 8), ("one", 9), ("two", 0), ("two", 2))
    ]
    ledger = ledger_of(*reports)
    assert {query: coverage.missing for query, coverage in ledger.coverage().items()} == {
        "one": (),
        "two": ((1, 1),),
    }
    assert ledger.completeness().missing_batches == 1


def test_an_empty_ledger_knows_no_share() -> None:
    """None, not 100 %."""
    completeness = Ledger().completeness()
    assert (completeness.lower, completeness.upper) == (None, None)


# -- idempotence and order -----------------------------------------------------------------------------------


@given(operators(1_000), st.lists(st.tuples(rows, rows, watermarks_ms), max_size=5), st.randoms())
def test_repeats_change_nothing_and_order_does_not_matter(
    operator: Operator, batches: list[tuple[list[Row], list[Row], int]], random: Random
) -> None:
    """Reports are retried and overtake each other."""
    reports = [
        report_of(counted, operator, late_watermark_ms=watermark_ms, uncounted=lost, batch_id=batch_id)
        for batch_id, (counted, lost, watermark_ms) in enumerate(batches)
    ]
    body = reports * 2
    random.shuffle(body)
    once, often = ledger_of(*reports), ledger_of(*body)
    assert once.tallies == often.tallies
    assert once.completeness() == often.completeness()
    assert once.coverage() == often.coverage()


def test_a_repeat_is_distinguished_from_a_new_report_by_query_and_batch() -> None:
    """The run id does not count: a batch that is run again after a crash is the same batch."""
    ledger = Ledger()
    first = report_of([("p", 5)], RowLevel(), late_watermark_ms=0)
    assert ledger.add(first)
    assert not ledger.add(report_of([("p", 5)], RowLevel(), late_watermark_ms=0, run_id="another"))
    assert ledger.add(report_of([("p", 5)], RowLevel(), late_watermark_ms=0, query_id="another"))
    assert ledger.completeness().rows == 2


@given(operators(1_000), rows, watermarks_ms)
def test_the_tallies_by_key_add_up_over_the_partitions(
    operator: Operator, batch: list[Row], watermark_ms: int
) -> None:
    """What the sink shows has no partitions."""
    report = report_of(batch, operator, late_watermark_ms=watermark_ms)
    assert judge(report).tallies == ledger_of(report).by_key()
    assert list(judge(report).tallies) == sorted(judge(report).tallies)


@given(operators(10_000), rows, watermarks_ms, st.integers(0, 40))
def test_late_rows_above_the_final_watermark_are_corrected_and_windows_say_exactly_how_many(
    operator: Operator, batch: list[Row], late_ms: int, grace_ms: int
) -> None:
    report = report_of(
        batch,
        operator,
        late_watermark_ms=late_ms,
        granule_us=10_000,
        final_watermark_ms=late_ms - grace_ms,
    )
    judgement, plain = judge(report), judge(replace(report, final_watermark_ms=None))
    late = late_among(operator, batch, late_ms)
    corrected = late - late_among(operator, batch, late_ms - grace_ms)

    assert judgement.corrected_min <= corrected <= judgement.corrected_max <= judgement.total.late_max
    if operator.closed == "left":
        assert judgement.corrected_min == judgement.corrected_max
    assert (plain.corrected_min, plain.corrected_max) == (0, 0)


def test_a_late_row_whose_key_the_final_watermark_reaches_is_not_corrected() -> None:
    """Spark drops what is at or below it; granules of 10 s, of which the watermark cuts the second."""
    batch = [("p", 10 * SECOND), ("p", 20 * SECOND), ("p", 30 * SECOND)]
    found = []
    for final_ms in (9_999, 10_000, 15_000, 20_000):
        report = report_of(
            batch,
            RowLevel(),
            late_watermark_ms=30_000,
            granule_us=10 * SECOND,
            final_watermark_ms=final_ms,
        )
        judgement = judge(report)
        found.append((judgement.corrected_min, judgement.corrected_max))
    assert found == [(2, 3), (2, 2), (1, 2), (1, 1)]
    window = report_of([("p", 5 * SECOND)], tumbling("10s"), late_watermark_ms=30_000)
    of_window = [judge(replace(window, final_watermark_ms=final_ms)) for final_ms in (9_999, 10_000)]
    assert [(each.corrected_min, each.corrected_max) for each in of_window] == [(1, 1), (0, 0)]
