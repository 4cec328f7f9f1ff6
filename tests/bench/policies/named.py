"""Policies by name for benches and contracts: those of the product, and those of the literature beside them."""

from __future__ import annotations

from collections.abc import Callable

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.catalogue import make_policy as make_product_policy
from tidemark.models.backtest.catalogue import policy_for as product_policy_for
from tidemark.models.live.policy import BoundPolicy, Setup

from bench.policies.conformal import AdaptiveConformal
from bench.policies.trackers import DynamicallyTuned, ScaleFreeGradient, StronglyAdaptive, TrackerPolicy

LITERATURE: dict[str, Callable[[Setup], BoundPolicy]] = {
    "aci": lambda setup: AdaptiveConformal(setup.target_ppm, scope=setup.scope),
    "sfogd": lambda setup: TrackerPolicy(ScaleFreeGradient, setup.target_ppm, scope=setup.scope),
    "saocp": lambda setup: TrackerPolicy(StronglyAdaptive, setup.target_ppm, scope=setup.scope),
    "dtaci": lambda setup: TrackerPolicy(DynamicallyTuned, setup.target_ppm, scope=setup.scope),
}
"""Conformal trackers: no user needs them, so they are no part of the product."""


def make_policy(name: str, setup: Setup) -> BoundPolicy:
    """Return a fresh policy, of the literature or as the product's catalogue makes it."""
    return LITERATURE[name](setup) if name in LITERATURE else make_product_policy(name, setup)


def policy_for(name: str, arrivals: Arrivals, setup: Setup) -> BoundPolicy:
    """Return a fresh policy for one run over ``arrivals``, also one that is made from the trace itself."""
    return LITERATURE[name](setup) if name in LITERATURE else product_policy_for(name, arrivals, setup)
