"""The transition: what a change of a stream's bound will do, predicted before it is made.

A bound changes at a restart. Spark then restores the watermark but not the maximum it came from (``README``), so in the
new run ``W(n) = max(W restored, base of this run - L)`` over whole milliseconds:

* *widening* freezes the watermark until a batch shows an event time above ``W + L``; the batch after that is the first
  with a moved one;
* *narrowing* moves it with the second batch, and all windows that end in ``(W, base - L]`` close at once.

Times are counted as if the job restarted at the newest batch's end without delay; callers that know the cost of a
restart add it. Unknown values are None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.operators import Int64s, Operator, RowLevel, TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.evidence.curve import Curve, CurvePoint
from tidemark.models.evidence.sketch import DEFAULT_RELATIVE_ACCURACY_PPM
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.choice import percent_of
from tidemark.models.recommend.joint_bounds import JoinSide
from tidemark.models.recommend.promise import ChangeKind, Transition

_BUCKET = (PPM + DEFAULT_RELATIVE_ACCURACY_PPM) / (PPM - DEFAULT_RELATIVE_ACCURACY_PPM)
"""Upper edge of a bucket of the needs' sketch over its lower edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The state of a stream after its newest batch that a change of its bound depends on."""

    at_us: int
    """Wall time at which the newest batch ended, in microseconds."""
    bound_us: int
    watermark_us: int | None
    """The newest watermark, W(n), in microseconds; None before the first."""
    base_us: int | None
    """The base after the newest batch, in whole milliseconds as microseconds; None before any row."""
    pace_ppm: int | None
    """Event time by which the base moves per wall time, in parts per million; None when it is not known."""
    batch_gap_us: int | None
    """Typical time between the triggers of two batches, in microseconds; None when it is not known."""
    operator: Operator
    drops_state: bool
    """Whether the watermark closes windows: not in complete mode."""
    state_rows: int
    """Rows in the state after the newest batch."""
    state_bytes: int
    """Memory of the state after the newest batch, in bytes."""
    open_end_us: Int64s
    """Ends of the known windows that the watermark has not passed, ascending and distinct, shape (windows,)."""
    open_rows: Int64s
    """Rows admitted to each so far, shape (windows,)."""
    curve: Curve
    confidence_ppm: int
    """Confidence of the interval of the completeness, in parts per million."""
    rows_per_event: float
    """How many pairs share their fate."""
    downstream: Downstream | None = None
    """What the bound decides in the query, its state among it; None: the state is that of the operator alone."""
    join: JoinSide | None = None
    """The join whose output has an SLO: its other sides hold the watermark back as well; None without one."""

    @property
    def step_us(self) -> int | None:
        """Event time by which the base moves from batch to batch, in microseconds; None when it is not known."""
        if self.pace_ppm is None or self.batch_gap_us is None:
            return None
        return self.pace_ppm * self.batch_gap_us // PPM


@dataclass(frozen=True, slots=True)
class CutBucket:
    """The bucket of the needs' sketch that a bound cuts. The curve calls all of its pairs late."""

    low_us: float
    """Lower edge in microseconds, not in it."""
    high_us: float
    """Upper edge in microseconds, in it."""
    pairs: int


def transition_to(situation: Situation, bound_us: int, *, share_below: float | None = None) -> Transition:
    """Return what it will do to go from the bound in use to ``bound_us`` by a restart.

    Args:
        situation: the stream after its newest batch.
        bound_us: the bound proposed, in microseconds.
        share_below: share of the pairs in the bucket that the bound cuts (``cut_bucket``) that it admits; None: their
            needs are taken to be spread evenly.
    """
    kind: ChangeKind = "same"
    if bound_us != situation.bound_us:
        kind = "widen" if bound_us > situation.bound_us else "narrow"
    stands_still_us, effective_us = _when(situation, bound_us)
    windows, rows_closing = _closing(situation, bound_us)
    state_rows, state_bytes = state_at(situation, bound_us)
    admission = admission_at(
        situation.curve,
        bound_us,
        situation.confidence_ppm,
        rows_per_event=situation.rows_per_event,
        share_below=share_below,
    )
    if situation.join is not None and situation.join.bounds is not None:
        admission = _beside_others(situation.join, admission, situation, bound_us)
    point, wall = admission.point, admission.point.latency_wall
    transition = Transition(
        kind=kind,
        from_bound_ms=situation.bound_us // 1_000,
        bound_ms=bound_us // 1_000,
        at_us=situation.at_us,
        stands_still_ms=_ms(stands_still_us),
        effective_us=effective_us,
        windows_closing=windows,
        rows_closing=rows_closing,
        state_rows=state_rows,
        state_bytes=state_bytes,
        rows=point.rows,
        late=admission.late,
        events=int(point.rows / situation.rows_per_event),
        completeness_ppm=(point.rows - admission.late) * PPM // point.rows if point.rows else None,
        min_ppm=admission.min_ppm,
        max_ppm=admission.max_ppm,
        latency_base_ms=_ms(point.latency_base_us),
        latency_wall_ms=_ms(wall.measured_us) if wall is not None else None,
        latency_at_least_ms=_ms(wall.mean_us) if wall is not None and wall.censored else None,
        latency_unknown=point.latency_unknown,
        text="",
    )
    return replace(transition, text=_text(situation, transition, point))


def _ms(time_us: float | None) -> int | None:
    return None if time_us is None else round(time_us / 1_000)


@dataclass(frozen=True, slots=True)
class Admission:
    """How many of the pairs that a curve rests on a bound admits."""

    point: CurvePoint
    """The point of the curve, which calls all pairs of the bucket that the bound cuts late."""
    late: int
    """How many would have been late: the best estimate."""
    min_ppm: int | None
    """Lower end of the interval of the completeness, in parts per million; None without pairs."""
    max_ppm: int | None


def admission_at(
    curve: Curve,
    bound_us: int,
    confidence_ppm: int,
    *,
    rows_per_event: float,
    share_below: float | None = None,
) -> Admission:
    """Return how many pairs a bound admits."""
    point = curve.at(bound_us)
    cut = cut_bucket(curve, bound_us)
    late = late_min = late_max = point.late
    if cut is not None and share_below is not None:
        late = late_min = late_max = point.late - round(cut.pairs * share_below)
    elif cut is not None:
        even = (bound_us - cut.low_us) / (cut.high_us - cut.low_us)
        late, late_min = point.late - round(cut.pairs * even), point.late - cut.pairs
    return Admission(
        point, late, *interval_ppm(late_min, late_max, point.rows, confidence_ppm, rows_per_event)
    )


def _beside_others(join: JoinSide, alone: Admission, situation: Situation, bound_us: int) -> Admission:
    """Return how many rows of a side are admitted beside the others' chosen bounds; ``alone`` are far fewer."""
    late, rows = join.late_under(bound_us // 1_000), int(join.needs.rows[:, join.side].sum())
    interval = interval_ppm(late, late, rows, situation.confidence_ppm, situation.rows_per_event)
    return Admission(replace(alone.point, rows=rows), late, *interval)


def _when(situation: Situation, bound_us: int) -> tuple[int | None, int | None]:
    """Return how long the watermark does not move, and the wall time of the first batch in which it has moved.

    Batch j after the restart shows the base ``j`` steps ahead; the first to show one above ``W + L`` moves the
    watermark of batch j + 1. After a narrowing the first batch with rows already shows such a base.
    """
    if situation.watermark_us is None or situation.base_us is None:
        return None, None
    missing_us = situation.watermark_us + bound_us - situation.base_us
    pace_ppm, gap_us, step_us = situation.pace_ppm, situation.batch_gap_us, situation.step_us
    if missing_us < 0:
        return 0, None if gap_us is None else situation.at_us + 2 * gap_us
    if pace_ppm is None or pace_ppm <= 0:
        return None, None
    stands_still_us = missing_us * PPM // pace_ppm
    if gap_us is None or not step_us:
        return stands_still_us, None
    return stands_still_us, situation.at_us + (missing_us // step_us + 2) * gap_us


def _closing(situation: Situation, bound_us: int) -> tuple[int | None, int | None]:
    """Return how many windows known so far end in ``(W, base - L]``, and the rows admitted to them."""
    if not isinstance(situation.operator, TimeWindow) or not situation.drops_state:
        return None, None
    if situation.watermark_us is None or situation.base_us is None:
        return None, None
    ends = situation.open_end_us
    first, last = np.searchsorted(
        ends,
        [situation.watermark_us, max(situation.base_us - bound_us, situation.watermark_us)],
        side="right",
    ).tolist()
    return last - first, int(situation.open_rows[first:last].sum())


def state_at(situation: Situation, bound_us: int) -> tuple[int | None, int | None]:
    """Return rows and bytes of the state under the new bound, once it is in effect.

    It assumes the same keys and rates, and state in proportion to the event time that is open, from the watermark to
    the end of the newest window (or session): window size + base - W now, window size + L + one batch's step then.
    Joins and deduplication keep rows beyond that. Where other things decide (``state_unforeseen``) it is not known.
    """
    downstream = situation.downstream or Downstream()
    if not situation.drops_state or downstream.state_unforeseen is not None:
        return None, None
    if situation.watermark_us is None or situation.base_us is None:
        return None, None
    size_us = situation.operator.span_us + 1_000 * (downstream.range_ms + (downstream.horizon_ms or 0))
    moves_us = (situation.bound_us, bound_us) if downstream.horizon_moves else (0, 0)
    now_us = size_us + moves_us[0] + situation.base_us - situation.watermark_us
    # Once the bound is in effect, W trails it by one step more; now it may still trail an earlier bound.
    step_us = situation.step_us
    if step_us is None or now_us <= 0 or not situation.state_rows:
        return None, None
    then_us = size_us + moves_us[1] + max(bound_us, downstream.others_ms * 1_000) + max(step_us, 0)
    return (
        round(situation.state_rows * then_us / now_us),
        round(situation.state_bytes * then_us / now_us) or None,
    )


def cut_bucket(curve: Curve, bound_us: int) -> CutBucket | None:
    """Return the bucket of the needs' sketch that a bound cuts; None when it lies on an edge or needs are exact."""
    point = curve.at(bound_us)
    surely = point.rows - point.late
    high_us = curve.needs.value_at_rank(surely + 1)
    if high_us is None or bound_us <= 0 or not high_us / _BUCKET < bound_us < high_us:
        return None
    (within,) = curve.needs.weight_at_most(np.array([high_us], np.float64)).tolist()
    return CutBucket(high_us / _BUCKET, high_us, round(within) - surely)


def _text(situation: Situation, transition: Transition, point: CurvePoint) -> str:
    if transition.kind == "same":
        parts = [f"the bound stays {format_duration(transition.bound_ms * 1_000)}"]
    else:
        verb = "widening" if transition.kind == "widen" else "narrowing"
        before, after = (
            format_duration(bound_ms * 1_000) for bound_ms in (transition.from_bound_ms, transition.bound_ms)
        )
        parts = [f"{verb} from {before} to {after} {_moves(transition)}"]
    if transition.windows_closing and transition.kind == "narrow":
        windows, rows = (
            plural(transition.windows_closing, "window"),
            plural(transition.rows_closing or 0, "row"),
        )
        closes = "closes" if transition.windows_closing == 1 else "close"
        parts.append(f"{windows} with {rows} so far {closes} at once")
    if transition.rows:
        admitted = percent_of(transition.rows - transition.late, transition.rows)
        at = "" if point.latency_wall is None else f" at a mean latency of {point.latency_wall.text()}"
        parts.append(f"{admitted} of the rows will be admitted{at}")
    if transition.state_rows is not None and transition.kind != "same":
        parts.append(
            f"about {plural(transition.state_rows, 'row')} of state, now {situation.state_rows:,} "
            "(estimated in proportion to the event time that is open)"
        )
    if transition.kind == "narrow" and isinstance(situation.operator, RowLevel):
        parts.append(
            "the narrower bound also shortens how long duplicates are recognised and joins keep their rows"
        )
    return "; ".join(parts)


def _moves(transition: Transition) -> str:
    if transition.stands_still_ms is None:
        return "takes effect after a restart; when is unknown, because the pace of event time is not known"
    if transition.stands_still_ms == 0:
        return "takes effect with the second batch after a restart"
    return f"stops the watermark for {format_about(transition.stands_still_ms * 1_000)} after a restart"
