"""What a shadow tries: a target and caps beside the SLO in force, without any effect on the job."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

from annotated_types import Gt, Lt

from tidemark.models.base.ranges import STRICT, Count
from tidemark.models.specs.slo import OnConflict, Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSlo:
    """What a shadow has in place of the SLO in force; all other fields are those of that SLO."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)]
    """Share of (row, window) pairs to admit, in parts per million."""
    latency_cap_ms: Count | None = None
    """Maximum mean emit latency (wall time of emission minus window end), in milliseconds; null for no cap."""
    on_conflict: OnConflict | None = None
    """Which constraint is broken when no bound meets all; null: none, the bound in use is held."""
    state_cap_rows: Count | None = None
    """Maximum rows of state; null for no cap."""

    def beside(self, slo: Slo) -> Slo:
        """Return the SLO in force with the shadow's fields in place of its own."""
        return replace(slo, **{field.name: getattr(self, field.name) for field in fields(ShadowSlo)})


def why_not_tried(slo: Slo, *, joined: bool) -> str | None:
    """Return why nothing can be tried beside an SLO; None when it can.

    Args:
        slo: the SLO in force.
        joined: whether the stream is a side of a join that has an SLO.
    """
    if joined:
        return "the stream is a side of a join, whose SLO decides about its bound"
    if slo.objective == "timeslices" or slo.worst_window_ppm is not None:
        return (
            "the SLO has a goal for single windows (timeslices or worst_window_ppm), and how those come out is known "
            "only of the bound in use"
        )
    return None
