"""Every tuned number of the decision in one place: its unit, its origin and what changing it does."""

from __future__ import annotations

__all__ = ["NARROW_DEAD_BAND_PPM"]

NARROW_DEAD_BAND_PPM = 100_000
"""Share of the bound, in parts per million, by which a new bound must be narrower to be worth a change.

10 % is the tolerance of the Kubernetes HPA and the change threshold of the VPA. Widening has no dead band: it guards
rows. Doubling it halves the restarts of a slowly falling stream and keeps its windows up to a tenth longer.
"""
