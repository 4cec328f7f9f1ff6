"""Conditions that rows bring about: what is unknown of them, what is set aside, and whose clocks are wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemark.controller.reports.partitions import FutureRows, MisdatedRows
from tidemark.controller.reports.ran_again import is_ran_again
from tidemark.controller.view.state.answers import Condition, condition
from tidemark.controller.view.state.recent_reports import RecentQuery
from tidemark.controller.view.state.state import HorizonState, StreamState
from tidemark.models.base.duration import format_about
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.text import plural
from tidemark.models.evidence.horizon import HorizonFacts
from tidemark.models.evidence.misdated import CLOCKS_AGREE_US
from tidemark.models.evidence.set_aside import TIMES
from tidemark.models.recommend.choice import percent_of

_NAMES_SHOWN = 10
"""How many partitions a condition names; the list of partitions has all of them."""

_REASONS_SHOWN = 3
"""How many ways in which rows are misdated a condition names."""


def conditions_of_rows(state: StreamState, horizon: HorizonState) -> Iterator[Condition]:
    """Yield those that hold by what a stream's reports add up to over the horizon."""
    yield from _observed(horizon.facts)
    yield from _future(horizon.future)
    yield from _misdated(horizon.misdated, horizon.facts)
    yield from _clocks(state, horizon)


def _observed(facts: HorizonFacts) -> Iterator[Condition]:
    if facts.missing_batches:
        batches, were = plural(facts.missing_batches, "batch", "batches"), _were(facts.missing_batches)
        detail = f"{batches} {were} never reported: completeness is unknown there"
        yield condition("CoverageGap", detail)
    again = [covered for query, covered in facts.coverage.items() if is_ran_again(query)]
    if again:
        first, last = min(covered.first for covered in again), max(covered.last for covered in again)
        which = f"batch {first}" if first == last else f"batches {first} to {last}"
        detail = (
            f"{which} ran again with other rows, as from a checkpoint that was restored from a backup: rows that were "
            "read twice count twice"
        )
        yield condition("BatchesRanAgain", detail)
    if facts.uncounted_rows:
        rows, were = plural(facts.uncounted_rows, "row"), _were(facts.uncounted_rows)
        detail = f"{rows} {were} not counted by granule, so it is unknown whether they were late"
        yield condition("RowsNotCounted", detail)
    if facts.excessive_rows:
        detail = (
            f"{plural(facts.excessive_rows, 'row')} came in batches of more than {TIMES:,} times what the stream's "
            "rate explains: none of them is judged, so completeness is unknown there, and no bound rests on them. Does "
            "the job count right? A rate that has risen for good counts after some batches"
        )
        yield condition("CountsExcessive", detail)
    if facts.replayed_rows:
        detail = (
            f"{plural(facts.replayed_rows, 'row')} {_were(facts.replayed_rows)} read behind newer ones though older "
            "than the query: files are read in another order than that of event time. That is no delay, so no bound is "
            "widened for them. Read a first snapshot from a new checkpoint, in order (withEventTimeOrder of Delta) or "
            "as one batch (without maxFilesPerTrigger), or give the job itself a bound as wide as it needs"
        )
        yield condition("ReadOutOfOrder", detail)
    unknown = facts.need_unknown_rows - facts.excessive_rows - facts.replayed_rows
    if unknown > facts.uncounted_rows:
        rows = plural(unknown, "row")
        detail = f"the need of {rows} is unknown: the base was unknown when they were reported"
        yield condition("NeedsUnknown", detail)


def _future(future: FutureRows) -> Iterator[Condition]:
    if future.rows:
        detail = (
            f"{plural(future.rows, 'row')} {_were(future.rows)} future-dated and set back to the clock, "
            f"in {_named(future.partitions)}: are the clocks of their senders right?"
        )
        yield condition("FutureRows", detail)


def _misdated(misdated: MisdatedRows, facts: HorizonFacts) -> Iterator[Condition]:
    if misdated.rows:
        are = "is" if misdated.rows == 1 else "are"
        dated = "; ".join(misdated.explained[:_REASONS_SHOWN]) or "misdated"
        detail = (
            f"{plural(misdated.rows, 'row')} of {_named(misdated.partitions)}, "
            f"{percent_of(misdated.rows, facts.rows)} of all, {are} {dated}{'' if dated.endswith('?') else '.'} "
            "No bound is meant for them, so they do not steer"
        )
        if facts.misdated_late:
            late = plural(facts.completeness.late_max, "late row")
            detail += f"; of the {late} {facts.misdated_late:,} are theirs, or lost to a watermark that followed them"
        yield condition("MisdatedRows", detail)


def _clocks(state: StreamState, horizon: HorizonState) -> Iterator[Condition]:
    """Say which clock is wrong, and by how much, of this controller's, the driver's and those of the rows."""
    wrong = (query for query in horizon.queries if query.rows_ahead_us or query.driver_ahead_us)
    parts = [_off(query, horizon.misdated.partitions) for query in wrong]
    newest = state.newest
    if newest is not None and newest.base_ms is not None and state.live is None:
        ahead_us = (newest.report.watermark_ms - newest.base_ms) * SPARK_TICK_US
        if ahead_us > CLOCKS_AGREE_US:
            parts.append(
                f"the watermark has followed a clock that was wrong and is {format_about(ahead_us)} ahead of the rows: "
                "Spark drops them until they have come as far, or the query has a new checkpoint"
            )
    if parts:
        yield condition("ClockWrong", "; ".join(dict.fromkeys(parts)) + ". No bound is moved by it")


def _off(query: RecentQuery, partitions: Sequence[str]) -> str:
    driver_us, rows_us = query.driver_ahead_us, query.rows_ahead_us
    driver = "" if not driver_us else f"the driver's clock is {_apart(driver_us)} this controller's"
    if rows_us is None:
        return f"{driver}; the times of its rows are plausible"
    rows = f"rows of {_named(partitions)} are dated up to {_apart(rows_us)}"
    if driver_us and abs(rows_us - driver_us) <= abs(driver_us) // 2:
        return f"{driver}, and {rows} it, too: both are wrong, or this controller's is"
    if driver_us:
        return f"{driver}; {rows} it: the clocks of their senders are wrong, too"
    who = (
        "this controller's clock, and the driver's is not known"
        if driver_us is None
        else ("the clocks of the driver and of this controller, which agree")
    )
    return f"{rows} {who}: the clocks of their senders are wrong"


def _apart(off_us: int) -> str:
    return f"{format_about(abs(off_us))} {'ahead of' if off_us > 0 else 'behind'}"


def _named(partitions: Sequence[str]) -> str:
    if not partitions:
        return "partitions that are not known any more"
    names = ", ".join(map(repr, partitions[:_NAMES_SHOWN]))
    more = len(partitions) - _NAMES_SHOWN
    which = "partition" if len(partitions) == 1 else "partitions"
    return f"{which} {names}" + (f" and {more:,} more" if more > 0 else "")


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
