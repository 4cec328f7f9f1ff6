"""Grace: windows emitted early by a small bound and mended for a while by what comes later.

With a bound L and a grace G (Flink's ``allowedLateness``, Hazelcast's and Kafka Streams' grace) a window is first
emitted when the watermark ``base - L`` reaches its end, and a late row still mends it until the watermark is G past the
end; what comes later still goes to the side output. So L with G keeps what the bound L + G would keep, at the
first-emission latency of L. Who reads the first emission reads an incomplete one, though: the grace turns loss into
corrections.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.curve import Curve, MeanLatency

__all__ = ["GracePoint", "with_grace"]


@dataclass(frozen=True, slots=True)
class GracePoint:
    """What a bound with a grace would have done with (row, key) pairs. Times in microseconds."""

    bound_us: int
    """The bound, by which windows are first emitted."""
    grace_us: int
    """How far past a window's end the watermark may be before a row for it is lost."""
    pairs: int
    """Pairs that arrived."""
    on_time: int
    """Pairs in the first emission of their window: admitted by the bound alone."""
    in_grace: int
    """Pairs that mended a window later."""
    side_output: int
    """Pairs later than bound and grace."""
    latency_base_us: float | None
    """Mean over emitted windows of the base at the first emission minus the window's end; None without any."""
    latency_wall: MeanLatency | None
    """Mean over windows of the wall time of the first emission minus the window's end; None without windows."""

    @property
    def completeness(self) -> float | None:
        """Share of the pairs that reached their window in the end; None without pairs."""
        return (self.on_time + self.in_grace) / self.pairs if self.pairs else None

    @property
    def first_completeness(self) -> float | None:
        """Share of the pairs that were in their window's first emission; None without pairs."""
        return self.on_time / self.pairs if self.pairs else None


def with_grace(curve: Curve, bound_us: int, grace_us: int) -> GracePoint:
    """Return what the bound with a grace would have done.

    Args:
        curve: the completeness-latency curve of what arrived (``Curve.of_replay``).
        bound_us: the bound, a multiple of the engine's tick.
        grace_us: the grace, at least 0 and a multiple of the tick.

    Raises:
        ValueError: when the grace is below 0.
    """
    if grace_us < 0:
        raise ValueError(f"the grace must be at least 0, not {grace_us} us")
    first, mended = curve.at(bound_us), curve.at(bound_us + grace_us)
    return GracePoint(
        bound_us=bound_us,
        grace_us=grace_us,
        pairs=first.rows,
        on_time=first.rows - first.late,
        in_grace=first.late - mended.late,
        side_output=mended.late,
        latency_base_us=first.latency_base_us,
        latency_wall=first.latency_wall,
    )
