"""SLOs and policies as the API answers them."""

from __future__ import annotations

from tidemark.controller.api import schemas
from tidemark.controller.specs.store import Spec, fields_of
from tidemark.models.specs.slo import Policy, Slo


def slo_answer(slo: Spec[Slo]) -> schemas.SloAnswer:
    """Return an SLO as it is answered."""
    return schemas.SloAnswer(**fields_of(slo.value), generation=slo.generation, updated_us=slo.updated_us)


def policy_answer(policy: Spec[Policy]) -> schemas.PolicyAnswer:
    """Return a policy as it is answered."""
    return schemas.PolicyAnswer(
        **fields_of(policy.value), generation=policy.generation, updated_us=policy.updated_us
    )
