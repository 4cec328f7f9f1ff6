"""SLOs and policies as the API answers them."""

from __future__ import annotations

from tidemark.controller.api.schemas.specs import PolicyAnswer, SloAnswer
from tidemark.controller.specs.store import Spec, fields_of
from tidemark.models.specs.slo import Policy, Slo


def slo_answer(slo: Spec[Slo]) -> SloAnswer:
    """Return an SLO as it is answered."""
    return SloAnswer(**fields_of(slo.value), generation=slo.generation, updated_us=slo.updated_us)


def policy_answer(policy: Spec[Policy]) -> PolicyAnswer:
    """Return a policy as it is answered."""
    return PolicyAnswer(**fields_of(policy.value), generation=policy.generation, updated_us=policy.updated_us)
