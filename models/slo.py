"""What an SRE asks for (the SLO) and allows (the policy) for one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from tidemark.models.wire import STRICT, Mode

__all__ = ["Policy", "Slo", "Yields"]

Yields = Literal["completeness", "latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """The completeness SLO of a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    target_ppm: Annotated[int, Gt(0), Lt(1_000_000)]
    """Share of (row, window) pairs to be admitted, in parts per million."""
    latency_cap_ms: Annotated[int, Ge(0)] | None = None
    """Greatest mean emit latency (wall time of emission minus window end) allowed, in milliseconds; null for no cap."""
    yields: Yields | None = None
    """Which constraint gives way when no bound meets both; null: neither, the bound in use is held and that is said."""
    confidence_ppm: Annotated[int, Gt(0), Lt(1_000_000)] = 950_000
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: Annotated[int, Gt(0), Le(31 * 86_400_000)] = 86_400_000
    """How far back evidence counts, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the controller may act on a stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    mode: Mode = "Off"
    """Off watches only; OnRestart gives the job its bound when it next starts; Restart has the runner start it again;
    Live steers it without a restart."""
    least_bound_ms: Annotated[int, Ge(0)] = 0
    """The bound is never narrower than this, in milliseconds."""
    greatest_bound_ms: Annotated[int, Ge(0)] | None = None
    """The bound is never wider than this, in milliseconds; null for no limit."""

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        if self.greatest_bound_ms is not None and self.greatest_bound_ms < self.least_bound_ms:
            raise ValueError(
                f"greatest_bound_ms {self.greatest_bound_ms} is below least_bound_ms {self.least_bound_ms}"
            )
