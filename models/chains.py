"""Chains of operators in which a watermark that comes nearer to the newest rows ends the query.

A ``transformWithState`` may give the rows that it emits an event time of their own, for a stateful operator behind it.
Spark (4.2, ``UpdateEventTimeColumnExec``) drops none of them: at the first one that is not ahead of the watermark the
query ends. How old they are is the processor's business, which holds rows in its state for as long as it wants. So a
query that ran well may end under a narrower bound, and in Live, whose watermark follows the rows. In every other chain
the rows of an operator are ahead of the watermark by Spark's own doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemark.models.duration import format_duration
from tidemark.models.findings import Finding, worst_first

CONFIRMED_KEY = "spark.tidemark.chain.confirmed"
"""The conf by which a job's author confirms that its rows stay ahead of any watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """The bound of one stream of a query that is about to start."""

    stream: str
    bound_ms: int
    """The bound that it is to run with, in milliseconds."""
    own_bound_ms: int
    """The job's own bound, in milliseconds."""
    last_bound_ms: int | None
    """The widest bound that the checkpoint's last run had, in milliseconds; None for a new checkpoint."""
    live: bool
    """Whether the watermark is to be moved while the query runs."""


def judge_own_times(
    columns: Sequence[str], starts: Iterable[StreamStart], *, confirmed: bool
) -> list[Finding]:
    """Return what is to be said about a query in which a ``transformWithState`` gives its rows their event time.

    Args:
        columns: the columns with that time; none when the query has no such chain.
        starts: the query's streams. Each counts, wherever it joins the chain: the query has one watermark.
        confirmed: whether the job's author has confirmed the chain.
    """
    if not columns:
        return []
    what = f"transformWithState gives its rows an event time of their own ({', '.join(columns)})"
    risk = f"{what}, and Spark ends the query when one of them is behind the watermark"
    moved = [(start, why) for start in starts if (why := _why_moved(start)) is not None]
    if confirmed:
        text = f"{risk}; by {CONFIRMED_KEY} none is, under a narrower bound and in Live as well"
        return [Finding("note", "own_event_time", text, "see that it stays so when the processor changes")]
    if not moved:
        return [Finding("note", "own_event_time", f"{risk}: a narrower bound and Live are refused", _CONFIRM)]
    return worst_first(
        [Finding("error", "own_event_time", f"{risk}: {why}", _instead(start)) for start, why in moved]
    )


def _why_moved(start: StreamStart) -> str | None:
    """Return why the watermark may come nearer to the stream's newest rows than it was; None when it does not."""
    if start.live:
        return f"stream {start.stream} is to run in Live, where the watermark follows its rows"
    if start.bound_ms >= _reference_ms(start):
        return None
    before = "the job's own bound is" if start.last_bound_ms is None else "the checkpoint last ran with"
    return (
        f"stream {start.stream} is to run with {_text(start.bound_ms)}, and {before} "
        f"{_text(_reference_ms(start))}"
    )


def _instead(start: StreamStart) -> str:
    kept = _text(_reference_ms(start))
    mode = "choose another mode than Live, and " if start.live else ""
    return (
        f"{mode}keep at least {kept}: write that bound into the job, and give the stream the policy "
        f"`--min-bound '{kept}'`; or {_CONFIRM}"
    )


def _reference_ms(start: StreamStart) -> int:
    return start.own_bound_ms if start.last_bound_ms is None else start.last_bound_ms


def _text(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)


_CONFIRM = (
    "if the processor gives every row a time after the watermark, such as that of a row that it is just reading, set "
    f"{CONFIRMED_KEY}=true"
)
