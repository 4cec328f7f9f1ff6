"""The policies by the names that the command line and the backtest use."""

from __future__ import annotations

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.bounds import Fixed, MaxNeed
from tidemark.models.backtest.flink import Flink
from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.yardstick import fixed_hindsight, flink_hindsight, flink_quarter
from tidemark.models.base.duration import parse_duration
from tidemark.models.live.policy import BoundPolicy, Setup
from tidemark.models.live.tidemark import Tidemark

FIXED_HINDSIGHT = "fixed-hindsight"
"""The smallest constant bound that meets the target over the whole trace."""
FLINK_HINDSIGHT = "flink-hindsight"
"""Flink with the bound and the idle timeout that have the lowest latency over the whole trace."""
FLINK_QUARTER = "flink-quarter"
"""Flink with those that have it over the first quarter."""
FROM_THE_TRACE = (FIXED_HINDSIGHT, FLINK_HINDSIGHT, FLINK_QUARTER)
"""Policies that are made from the trace itself; ``backtest.named`` makes them."""


def policy_names() -> tuple[str, ...]:
    """Return the policies behind ``all``, in the order in which results are shown."""
    return ("tidemark", *FROM_THE_TRACE, "flink", "max60")


def policy_forms() -> tuple[str, ...]:
    """Return every form of a name, for help and errors: those of ``policy_names`` and those with a parameter."""
    return (*policy_names(), "fixed:<duration>", "flink:<bound>[:<idle timeout>[:<tick>]]")


def make_policy(name: str, setup: Setup) -> BoundPolicy:
    """Return a fresh policy.

    Args:
        name: ``fixed:5s`` (a duration), ``max60``, ``flink``, ``flink:5s:30s`` or ``tidemark``.
        setup: gives the target and the scope.

    Raises:
        ValueError: when the name is unknown or its parameter cannot be read.
    """
    kind, colon, parameter = name.strip().partition(":")
    match kind, parameter:
        case "tidemark", "":
            return _tidemark(setup)
        case "fixed", _ if colon:
            return _fixed(parameter)
        case "max60", "":
            return MaxNeed()
        case "flink", _ if colon or not parameter:
            return _flink(parameter if colon else "0")
        case _, "" if kind in FROM_THE_TRACE:
            raise ValueError(
                f"{kind} needs the whole trace: find its settings first, then ask for "
                f"{kind.partition('-')[0]}:<bound>"
            )
        case _:
            raise ValueError(f"policy {name!r} is unknown; use one of {', '.join(policy_forms())}")


def _tidemark(setup: Setup) -> BoundPolicy:
    if setup.mode == "restart":
        return RecommendedPolicy(setup)
    return Tidemark(setup)


def _fixed(parameter: str) -> Fixed:
    bound_us = parse_duration(parameter)
    if bound_us < 0:
        raise ValueError(f"policy 'fixed:{parameter}': the bound must be at least 0, such as fixed:5s")
    return Fixed(bound_us)


def _flink(parameter: str) -> Flink:
    parts = [parse_duration(part) for part in parameter.split(":")]
    if len(parts) > 3:
        raise ValueError(f"policy 'flink:{parameter}' has more than a bound, an idle timeout and a tick")
    try:
        return Flink(*parts)
    except ValueError as error:
        raise ValueError(f"policy 'flink:{parameter}': {error}") from None


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
