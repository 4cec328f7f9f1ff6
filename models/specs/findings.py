"""What is found in a query's plan before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tidemark.models.base.duration import format_duration
from tidemark.models.base.stateful import CONFIRMED_KEY

Side = Literal["left", "right"]
Severity = Literal["error", "warning", "note"]

FindingCode = Literal[
    "refused",
    "refused_by_first_batch",
    "outer_rows_never_come",
    "never_evicted",
    "watermark_lost",
    "unreadable_range",
    "policy_max",
    "silent_side",
    "own_event_time",
    "watermark_never_moves",
    "windows_never_close",
    "last_windows_open",
    "never_forgotten",
    "watermark_without_effect",
]

_ORDER: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a query that its author should know."""

    severity: Severity
    """``error``: the query must not start; ``warning``: it runs, and loses rows, grows, may end, or has a watermark for
    nothing; ``note``: good to know."""
    code: FindingCode
    text: str
    instead: str
    """What to write or do instead."""
    join: int | None = None
    """Number of the join, from 1; None when it is about the whole query."""
    side: Side | None = None

    @property
    def where(self) -> str:
        """What it is about: ``join 1, left``."""
        return ", ".join(filter(None, ["query" if self.join is None else f"join {self.join}", self.side]))


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Return the findings, errors first."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))


JoinType = Literal["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti", "other"]

_OUTER_SIDES: dict[JoinType, tuple[Side, ...]] = {
    "left_outer": ("left",),
    "right_outer": ("right",),
    "full_outer": ("left", "right"),
}
"""Sides of which rows without a partner come out with NULLs."""


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One side of a join."""

    watermark_column: str | None
    """Event-time column with a watermark that reaches the join; None when there is none."""
    delay_ms: int | None
    retention_ms: int | None
    """A row stays in the state while its time is above W - retention, in milliseconds; None: for ever.

    It is negative when only rows ahead of the watermark can still find a partner."""
    evicted_by: str | None = None
    """Column or expression whose time is compared with the watermark; None when rows are never evicted."""
    is_window: bool = False
    """Whether the event-time column is a window, whose end is compared with the watermark."""
    lost_watermarks: tuple[str, ...] = ()
    """Columns with a watermark that do not reach the join, while no other does."""

    @property
    def retention_text(self) -> str:
        """How long a row stays in the state, in words."""
        if self.retention_ms is None:
            return "for ever"
        sign = "-" if self.retention_ms < 0 else "+"
        more = f" {sign} {format_duration(abs(self.retention_ms) * 1_000)}" if self.retention_ms else ""
        return f"until the watermark reaches {self.evicted_by}{more}"


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A join of two streams as Spark's optimizer leaves it."""

    type: JoinType
    left: JoinInput
    right: JoinInput
    keys: tuple[str, ...]
    """The equalities that rows are partitioned by."""
    ranges: tuple[str, ...] = ()
    """The parts of the condition from which Spark derives a retention."""
    unreadable: tuple[str, ...] = ()
    """The parts that compare the event times of both sides, and from which Spark derives none."""
    refused: str | None = None
    """Why Spark fails at the first batch, in its own words."""

    def side(self, side: Side) -> JoinInput:
        """Return one side."""
        return self.left if side == "left" else self.right


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    """What a query with joins is judged by."""

    joins: tuple[StreamJoin, ...]
    watermarks: int
    """How many inputs of the query have a watermark of their own."""
    policy: Literal["min", "max"]
    """``spark.sql.streaming.multipleWatermarkPolicy``: how one watermark is made of them."""
    refused: str | None = None
    """Why Spark does not start the query, in its own words; None when it does."""

    @property
    def starts(self) -> bool:
        """Whether Spark starts the query and runs its first batch."""
        return self.refused is None and all(join.refused is None for join in self.joins)


def judge_joins(query: JoinedQuery) -> list[Finding]:
    """Return what is to be said about a query's joins, the worst first."""
    findings = [
        finding for number, join in enumerate(query.joins, 1) for finding in _of_join(query, number, join)
    ]
    if query.refused is not None:
        findings.append(refused_start(query.refused, query.joins))
    elif query.starts and query.watermarks > 1:
        findings.append(_POLICY_MAX if query.policy == "max" else _SILENT_SIDE)
    return worst_first(findings)


def _of_join(query: JoinedQuery, number: int, join: StreamJoin) -> Iterator[Finding]:
    if join.refused is not None:
        if query.refused is None:
            text = f"Spark starts the query and fails at its first batch: {join.refused}"
            yield Finding("error", "refused_by_first_batch", text, _instead_of_first_batch(join), number)
        return
    outer = _OUTER_SIDES.get(join.type, ())
    sides: tuple[Side, ...] = ("left", "right")
    endless = [side for side in sides if join.side(side).retention_ms is None]
    for side in sides:
        for column in join.side(side).lost_watermarks:
            yield Finding(
                "warning",
                "watermark_lost",
                f"the watermark on {column} does not reach the join: the {side} input drops the column or computes it "
                "anew, so Spark takes this input for one without a watermark",
                f"keep {column} as it is, or call withWatermark on the new column, after it is computed",
                number,
                side,
            )
    for part in join.unreadable if endless else ():
        yield Finding(
            "warning",
            "unreadable_range",
            f"Spark derives no retention from `{part}`: it reads only timestamps compared with <, <=, > or >=, plus or "
            "minus intervals of fixed length",
            f"compare the columns themselves: {' AND '.join(dict.fromkeys(_range(join, side) for side in endless))}",
            number,
        )
    for side in endless if query.refused is None else ():
        never = "rows of this side are never evicted: the state grows as long as the query runs"
        if side in outer:
            yield Finding(
                "error",
                "outer_rows_never_come",
                f"the {side} rows without a partner never come out: Spark emits them when it evicts them, and {never}",
                _cure(join, side),
                number,
                side,
            )
        else:
            yield Finding("warning", "never_evicted", never, _cure(join, side), number, side)


def refused_start(message: str, joins: Iterable[StreamJoin] = ()) -> Finding:
    """Return that Spark does not start a query, in its own words, and what to do."""
    cures = (
        _cure(join, side)
        for join in joins
        for side in (("left",) if join.type == "left_semi" else _OUTER_SIDES.get(join.type, ()))
        if join.side(side).retention_ms is None
    )
    # Other refusals, such as of an output mode, are no matter of watermarks and ranges.
    instead = next(cures, None) if "watermark" in message else None
    text = f"Spark does not start the query: {message}"
    return Finding("error", "refused", text, instead or "change what the message names")


def _instead_of_first_batch(join: StreamJoin) -> str:
    if not join.keys:
        return "add an equality of two columns to the join's condition; Spark joins streams by a hash of it"
    return (
        "change what the message names; of several event times keep one before the join and drop the others"
    )


def _cure(join: StreamJoin, side: Side) -> str:
    """Return what makes Spark evict the rows of a side."""
    missing = [one for one in (side, _other(side)) if join.side(one).watermark_column is None]
    parts = [f'call withWatermark("<event time>", "<delay>") on the {one} input' for one in missing]
    # Without this side's own watermark Spark reads a range by the other's, so one that it read bounds this side.
    if not (missing == [side] and join.ranges):
        verb = "see that the join's condition has" if missing else "add to the join's condition"
        parts.append(f"{verb} {_range(join, side)}")
    return "; ".join(parts)


def _range(join: StreamJoin, side: Side) -> str:
    """Return the comparison that ends the time in which a side's rows wait for partners."""
    left = join.left.watermark_column or "<left event time>"
    right = join.right.watermark_column or "<right event time>"
    if left == right:
        left, right = f"left.{left}", f"right.{right}"
    if join.left.is_window or join.right.is_window:
        return f"{left} = {right}"
    return (
        f"{right} <= {left} + interval <N> seconds"
        if side == "left"
        else f"{right} >= {left} - interval <N> seconds"
    )


def _other(side: Side) -> Side:
    return "right" if side == "left" else "left"


_POLICY_MAX = Finding(
    "warning",
    "policy_max",
    "spark.sql.streaming.multipleWatermarkPolicy is max: the faster input moves the watermark for both, so rows of the "
    "slower one are dropped as late, their partners are lost, and outer joins emit false NULLs",
    "unset it before the first start; a checkpoint keeps the policy it began with",
)
_SILENT_SIDE = Finding(
    "note",
    "silent_side",
    "the watermark is the minimum over all inputs: while one is silent it stands still, nothing is evicted, and no "
    "outer row without a partner comes out",
    "let each source send something at least now and then, such as a heartbeat row, or alert on a watermark that "
    "stands still",
)


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
        columns: the columns with that time; none without such an operator.
        starts: the query's streams. Each counts, wherever it joins the others: the query has one watermark.
        confirmed: whether the job's author has confirmed these times.
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
    least = _text(_reference_ms(start))
    mode = "choose another mode than Live, and " if start.live else ""
    return (
        f"{mode}keep at least {least}: write that bound into the job, and give the stream the policy "
        f"`--min-bound '{least}'`; or {_CONFIRM}"
    )


def _reference_ms(start: StreamStart) -> int:
    return start.own_bound_ms if start.last_bound_ms is None else start.last_bound_ms


def _text(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)


_CONFIRM = (
    "if the processor gives every row a time after the watermark, such as that of a row that it is just reading, set "
    f"{CONFIRMED_KEY}=true"
)
