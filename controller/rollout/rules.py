"""What a rollout of a stream must keep to: its SLO, its policy, the pin in force and the limits of the fleet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from tidemark.controller.bounds.chains import policy_in_force
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.specs.joins import join_of
from tidemark.controller.specs.pins import StoredPin, pin_in_force
from tidemark.controller.specs.store import Spec, get_specs
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.specs.slo import Policy, Slo


@dataclass(frozen=True, slots=True)
class RolloutRules:
    """What a rollout of a stream must keep to."""

    slo: Spec[Slo]
    """The SLO; of a side of a join with at least the target of the join, since its late rows lose pairs."""
    policy: Spec[Policy]
    """The policy, with what the stream's query forbids."""
    pin: StoredPin | None
    """The pin in force; None without one."""
    fleet: FleetLimits | None
    """What limits how many jobs are changed at once; None where that does not apply."""


def rules_of(session: Session, stream_id: int, fleet: FleetLimits | None) -> RolloutRules | None:
    """Return a stream's rules; None without an SLO, when nothing is rolled out."""
    slo, policy = get_specs(session, stream_id)
    if slo is None:
        return None
    if slo.join_id is not None:
        target_ppm = max(slo.value.target_ppm, join_of(session, slo.join_id).slo.target_ppm)
        slo = replace(slo, value=replace(slo.value, target_ppm=target_ppm))
    stream = session.get_one(StreamRow, stream_id)
    pin = pin_in_force(session, stream.job, stream.stream)
    in_force = replace(policy, value=policy_in_force(session, stream_id, policy.value))
    return RolloutRules(slo, in_force, pin, fleet)
