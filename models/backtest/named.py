"""Policies by name for one trace: those of the catalogue, and those that are made from the trace itself."""

from __future__ import annotations

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.flink_yardstick import flink_hindsight, flink_quarter
from tidemark.models.backtest.yardstick import fixed_hindsight
from tidemark.models.policies.catalogue import FIXED_HINDSIGHT, FLINK_HINDSIGHT, FLINK_QUARTER, make_policy
from tidemark.models.policies.fixed import Fixed
from tidemark.models.policies.policy import BoundPolicy
from tidemark.models.policies.setup import Setup


def policy_for(name: str, arrivals: Arrivals, setup: Setup) -> BoundPolicy:
    """Return a fresh policy for one run over ``arrivals``.

    Raises:
        ValueError: when the name is unknown or its parameter cannot be read.
    """
    match name:
        case _ if name == FIXED_HINDSIGHT:
            return Fixed(fixed_hindsight(arrivals, setup)[0])
        case _ if name == FLINK_HINDSIGHT:
            return flink_hindsight(arrivals, setup)[0]
        case _ if name == FLINK_QUARTER:
            return flink_quarter(arrivals, setup)
        case _:
            return make_policy(name, setup)
