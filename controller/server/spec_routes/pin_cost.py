"""What a pin costs: its bound against the one in use, from the stream's own curve."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow, StreamRow
from tidemark.controller.control.bounds.acknowledgements import own_bound_ms
from tidemark.controller.control.bounds.publication import answer_of, last_published
from tidemark.controller.control.decide.load import read_evidence
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.reports.live import newest_state
from tidemark.controller.reports.store import effective_bound_of
from tidemark.controller.server.schemas.pins import PinnedStream
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.evidence.curve import Curve, CurvePoint
from tidemark.models.protocol.messages import PublishedAnswer
from tidemark.models.recommend.choice import percent_of
from tidemark.models.specs.pin import PinScope

NO_REPORTS = "not known: no reports"
"""The cost of a pin for a stream without reports."""

_WHAT_CLOSES = {"window": "windows close", "session": "sessions close"}
"""By kind of operator, what a bound delays. Operators without windows emit nothing at the watermark."""

_WHEN = {
    "OnRestart": "; takes effect when the job next starts",
    "Restart": "; takes effect when the runner has started the job again",
}
"""By mode, when another bound takes effect, unless that is at once."""


def cost_of(session: Session, cache: EvidenceCache, stream: StreamRow, scope: PinScope) -> PinnedStream:
    """Return what setting or removing the pin on ``scope`` does to a stream."""
    bound_ms, from_bound_ms, text = _cost(session, cache, stream, scope)
    return PinnedStream(
        job=stream.job,
        stream=stream.stream,
        bound_ms=bound_ms,
        from_bound_ms=from_bound_ms,
        text=f"{stream.job}/{stream.stream}: {text}",
    )


def _cost(
    session: Session, cache: EvidenceCache, stream: StreamRow, scope: PinScope
) -> tuple[int | None, int | None, str]:
    """Return the bound that the pin puts in force, the one that it replaces, and what that costs."""
    pin = pin_in_force(session, stream.job, stream.stream)
    if pin is not None and pin.on_what != scope:
        return None, None, f"stays pinned to {pin.to} {pin.why}"
    published = last_published(session, stream.id)
    answer = PublishedAnswer("Off", None, "") if published is None else answer_of(published)
    if pin is None and answer.mode == "Live":
        return None, None, "live control takes over again"
    bound_ms = own_bound_ms(session, stream.id) if answer.bound_ms is None else answer.bound_ms
    basis = read_evidence(session, stream.id, horizon_ms_of(session, stream.id), cache)
    if basis is None:
        return bound_ms, None, NO_REPORTS
    newest = basis.horizon.newest
    from_bound_ms = _from_bound_ms(session, newest)
    if bound_ms is None:
        return None, from_bound_ms, "not known: the job never ran with its own bound"
    if bound_ms == from_bound_ms:
        return bound_ms, from_bound_ms, f"{_bound(bound_ms)} is in use already"
    text = cost_text(basis.curve, bound_ms, from_bound_ms, _WHAT_CLOSES.get(newest.operator.kind))
    return bound_ms, from_bound_ms, text + _WHEN.get(answer.mode, "")


def _from_bound_ms(session: Session, newest: ReportRow) -> int:
    """Return the bound that a pin replaces: in Live the plan has the ceiling, and the effective one is what counts."""
    if newest_state(session, newest).live is None:
        return newest.bound_ms
    effective_ms = effective_bound_of(session, newest)
    return newest.bound_ms if effective_ms is None else max(effective_ms, 0)


def cost_text(curve: Curve, bound_ms: int, from_bound_ms: int, closes: str | None) -> str:
    """Describe what changing from one bound to another costs.

    Args:
        curve: completeness and latency by bound.
        bound_ms: the bound to come, in milliseconds.
        from_bound_ms: the bound that it replaces, in milliseconds.
        closes: what a bound delays, with its verb; None for operators without windows.
    """
    by = format_about(abs(bound_ms - from_bound_ms) * 1_000)
    if closes is None:
        parts = [f"the watermark trails {by} {'more' if bound_ms > from_bound_ms else 'less'}"]
    else:
        parts = [f"{closes} {by} {'later' if bound_ms > from_bound_ms else 'earlier'}"]
    parts[0] += f" than at {_bound(from_bound_ms)}"
    before, after = curve.at(from_bound_ms * 1_000), curve.at(bound_ms * 1_000)
    was_us, will_us = _latency_us(before, after), _latency_us(after, before)
    if was_us is not None and will_us is not None:
        parts.append(f"mean latency {format_about(was_us)} -> {format_about(will_us)} (predicted)")
    if after.rows:
        was, will = (percent_of(point.rows - point.late, point.rows) for point in (before, after))
        parts.append(f"completeness {was} -> {will} (predicted)")
    else:
        parts.append("completeness not known: no rows with a known need")
    return "; ".join(parts)


def _latency_us(point: CurvePoint, other: CurvePoint) -> float | None:
    """Return the mean wall latency at one of two points of a curve, in microseconds; None when it is not known.

    Under a wide bound windows are still open at the end of the reports, so its latency is not measured. Then it is the
    measured latency of the narrower bound plus the difference of the bounds.
    """
    if point.latency_wall is None or other.latency_wall is None:
        return None
    measured_us, narrow_us = point.latency_wall.measured_us, other.latency_wall.measured_us
    if measured_us is not None or narrow_us is None or point.bound_us <= other.bound_us:
        return measured_us
    return narrow_us + point.bound_us - other.bound_us


def _bound(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
