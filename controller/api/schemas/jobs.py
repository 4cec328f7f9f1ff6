"""Jobs."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.conditions import Condition, ConditionSummary
from tidemark.controller.api.schemas.pins import PinInForce
from tidemark.models.protocol.messages import Mode


class JobCondition(Condition):
    """A condition of one of a job's streams."""

    stream: str
    """Name of the stream."""


class JobWorst(ConditionSummary):
    """The worst condition of a job's streams."""

    stream: str
    """Name of the stream."""


class ModeCount(Answer):
    """How many of a job's streams are in a mode."""

    mode: Mode
    """The mode."""
    streams: int
    """How many."""


class JobSummary(Answer):
    """A job in a list."""

    job: str
    """Name of the job."""
    streams: int
    """How many streams of it are known."""
    modes: list[ModeCount]
    """Their modes."""
    worst: JobWorst | None
    """The worst condition of any of them; null without any."""


class JobPage(Answer):
    """A page of jobs, by name."""

    jobs: list[JobSummary]
    """The jobs."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class JobStatus(JobSummary):
    """What is known of a job; /v1/fleet?job= lists its streams."""

    pin: PinInForce | None
    """The kill switch that holds the whole job: its own, or the fleet's; null for none."""
    conditions: list[JobCondition]
    """Conditions of its streams, the worst first, at most 100."""
    more_conditions: int
    """How many more there are."""
