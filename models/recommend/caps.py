"""The SLO's caps: what a bound costs in latency and state, and who gives way where the target requires more.

A cap that the required bound exceeds is a conflict. ``on_conflict`` of the SLO resolves it: the cap is exceeded, or the
target is missed. Where it names neither of the two, the bound in use is held.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.models.base.duration import format_duration
from tidemark.models.base.text import plural
from tidemark.models.evidence.curve import latency_of
from tidemark.models.recommend.choice import percent
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import Cap, Conflict, DecisionStep, StepKind
from tidemark.models.recommend.transition import state_at
from tidemark.models.specs.slo import OnConflict

_KIND: dict[Cap, StepKind] = {"latency": StepKind.LATENCY_CAP, "state": StepKind.STATE_CAP}
_EXCEED: dict[Cap, OnConflict] = {"latency": "exceed_latency_cap", "state": "exceed_state_cap"}


def latency_cap(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Compare the mean latency under the bound with the cap."""
    cap_ms = inputs.slo.latency_cap_ms
    if cap_ms is None:
        return DecisionStep(StepKind.LATENCY_CAP, bound_ms, "no latency cap is set")
    cap = format_duration(cap_ms * 1_000)
    wall = inputs.curve.at(bound_ms * 1_000).latency_wall
    latency = latency_of(wall, inputs.downstream, bound_ms)
    if latency is None:
        reason = f"no latency is known yet to compare with the cap of {cap}"
        return DecisionStep(StepKind.LATENCY_CAP, bound_ms, reason)
    # Near the cap only the milliseconds tell which is more.
    text = latency.text(exact=abs(latency.mean_us - cap_ms * 1_000) < cap_ms * 10)
    above = latency.is_above(cap_ms * 1_000)
    if above:
        conflict = f"{format_duration(bound_ms * 1_000)} has a mean latency of {text}, above the cap of {cap}"
        return _resolved("latency", inputs, bound_ms, conflict)
    reason = f"the mean latency is {text}"
    if above is None and wall is not None:
        reason += f", and too many windows are still open to compare it with the cap of {cap}"
        return DecisionStep(StepKind.LATENCY_CAP, bound_ms, reason)
    return DecisionStep(StepKind.LATENCY_CAP, bound_ms, f"{reason}, the cap {cap}")


def state_cap(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Compare the rows of state under the bound with the cap."""
    cap, rows = inputs.slo.state_cap_rows or 0, _state_rows(inputs, bound_ms)
    if rows is None:
        why = None if inputs.downstream is None else inputs.downstream.state_unforeseen
        reason = f"no state is known yet to compare with the cap of {plural(cap, 'row')}"
        if why is not None:
            reason = f"the state cap decides nothing, since its size does not follow from the bound: {why}"
        return DecisionStep(StepKind.STATE_CAP, bound_ms, reason)
    state = f"about {plural(rows, 'row')} of state"
    if rows <= cap:
        return DecisionStep(StepKind.STATE_CAP, bound_ms, f"{state}, the cap is {cap:,}")
    conflict = f"{format_duration(bound_ms * 1_000)} would hold {state}, above the cap of {cap:,}"
    return _resolved("state", inputs, bound_ms, conflict)


def cap_exceeded(inputs: Inputs, bound_ms: int) -> Cap | None:
    """Return a cap that a bound certainly exceeds though the SLO does not allow that; None without one."""
    return next(
        (
            cap
            for cap in _KIND
            if inputs.slo.on_conflict != _EXCEED[cap] and not _is_within(cap, inputs, bound_ms)
        ),
        None,
    )


def _is_within(cap: Cap, inputs: Inputs, bound_ms: int) -> bool:
    """Return whether a bound is within a cap as far as is known; without a cap it is."""
    if cap == "latency":
        cap_ms = inputs.slo.latency_cap_ms
        wall = None if cap_ms is None else inputs.curve.at(bound_ms * 1_000).latency_wall
        latency = latency_of(wall, inputs.downstream, bound_ms)
        return latency is None or cap_ms is None or not latency.is_above(cap_ms * 1_000)
    rows = None if inputs.slo.state_cap_rows is None else _state_rows(inputs, bound_ms)
    return rows is None or rows <= (inputs.slo.state_cap_rows or 0)


def _state_rows(inputs: Inputs, bound_ms: int) -> int | None:
    return None if inputs.situation is None else state_at(inputs.situation, bound_ms * 1_000)[0]


def _resolved(cap: Cap, inputs: Inputs, bound_ms: int, conflict: str) -> DecisionStep:
    """Return the step of a bound above a cap, as the SLO resolves the conflict."""
    on_conflict = inputs.slo.on_conflict
    left_ms: int | None = bound_ms
    if on_conflict == _EXCEED[cap]:
        reason = f"{conflict}, which the SLO allows"
    elif on_conflict == "miss_target":
        widest_ms = _widest(bound_ms, lambda shorter_ms: _is_within(cap, inputs, shorter_ms))
        left_ms = widest_ms or 0
        reason = f"{conflict}; the target is missed, as the SLO says: "
        if widest_ms is None:
            reason += "even a bound of 0 is above the cap"
        else:
            admitted = percent(inputs.curve.at(widest_ms * 1_000))
            reason += f"{format_duration(widest_ms * 1_000)} admits {admitted}"
    else:
        left_ms = None
        gives_way = next((other for other in _KIND if _EXCEED[other] == on_conflict), None)
        says = (
            "does not say which gives way" if gives_way is None else f"lets only the {gives_way} cap give way"
        )
        reason = f"{conflict}, and the SLO {says}: {inputs.bound_name} is held"
    return DecisionStep(_KIND[cap], left_ms, reason, Conflict(cap, bound_ms))


def _widest(below_ms: int, fits: Callable[[int], bool]) -> int | None:
    """Return the widest bound below ``below_ms`` that fits, by bisection: costs grow with the bound."""
    low, high = -1, below_ms
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low if low >= 0 else None
