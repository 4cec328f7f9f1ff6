"""Every tuned number of the decision in one place: its unit, its origin and what changing it does."""

from __future__ import annotations

__all__ = ["BOUND_DIGITS", "NARROW_DEAD_BAND_PPM", "UNKNOWN_SHARE_OF_BUDGET_PPM"]

BOUND_DIGITS = 3
"""Digits to which a bound is rounded up.

Chosen: three digits widen by at most 1 %, about what the needs' sketch does, and the last digits of a sample should not
make a new generation. One digit fewer widens by up to 10 %.
"""

NARROW_DEAD_BAND_PPM = 100_000
"""Share of the bound, in parts per million, by which a new bound must be narrower to be worth a change.

10 % is the tolerance of the Kubernetes HPA and the change threshold of the VPA. Widening has no dead band: it guards
rows. Doubling it halves the restarts of a slowly falling stream and keeps its windows up to a tenth longer.
"""

UNKNOWN_SHARE_OF_BUDGET_PPM = 100_000
"""Share of the error budget, in parts per million, that rows of unknown need may take before nothing is narrowed.

Chosen: a tenth of the budget cannot turn a met target into a missed one by much, and one odd row a day must not hold a
bound for ever. Doubling it lets an SLO be missed by a fifth of its budget on what nobody counted.
"""
