"""SLOs and policies as they are set, and what follows from setting them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tidemark.controller.base.answer import made_of
from tidemark.controller.server.schemas.bounds import Published, RecommendationAnswer
from tidemark.models.recommend.promise import Transition
from tidemark.models.specs.slo import Policy, Slo

if TYPE_CHECKING:
    from tidemark.controller.specs.store import Spec


@dataclass(frozen=True, kw_only=True)
class SloAnswer(Slo):
    """The stream's SLO."""

    generation: int
    """How often the SLO was changed."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch."""

    @classmethod
    def of(cls, slo: Spec[Slo]) -> Self:
        """Return an SLO as it is answered."""
        return made_of(cls, slo.value, generation=slo.generation, updated_us=slo.updated_us)


@dataclass(frozen=True, kw_only=True)
class PolicyAnswer(Policy):
    """The stream's policy."""

    generation: int
    """How often the policy was changed, 0 for the default."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch; null for the default."""

    @classmethod
    def of(cls, policy: Spec[Policy]) -> Self:
        """Return a policy as it is answered."""
        return made_of(cls, policy.value, generation=policy.generation, updated_us=policy.updated_us)


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """What a write changes for the job."""

    dry_run: bool
    """Whether it was a dry run: then nothing was changed, and this is what would follow."""
    recommended: RecommendationAnswer | None
    """The recommendation after it; null while there is none."""
    transition: Transition | None
    """What the change from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What is published to the job after it."""
    held: str | None
    """What holds the rollout of the recommended bound then, such as a gate; null when nothing does."""


@dataclass(frozen=True, kw_only=True)
class SloSet(SloAnswer, Consequences):
    """The SLO as it was set or deleted, and what follows."""


@dataclass(frozen=True, kw_only=True)
class PolicySet(PolicyAnswer, Consequences):
    """The policy as it was set or deleted, and what follows."""
