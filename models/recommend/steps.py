"""The steps of a decision: what each does, the bound after it, its reason, and the conflict that it found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Literal

Cap = Literal["latency", "state"]


class StepKind(StrEnum):
    """What a step does. Programs go by it; people are shown its ``label``."""

    QUANTILE = "Quantile"
    JOIN = "Join"
    ROUND_UP = "RoundUp"
    UNKNOWN_ROWS = "UnknownRows"
    NO_DATA = "NoData"
    CATCHING_UP = "CatchingUp"
    SILENT_PARTITIONS = "SilentPartitions"
    FEW_BATCHES = "FewBatches"
    OTHER_SIDES = "OtherSides"
    NARROW_LATE = "NarrowLate"
    TIMESLICES = "Timeslices"
    WORST_WINDOW = "WorstWindow"
    MARGIN = "Margin"
    RESTARTS = "Restarts"
    LATENCY_CAP = "LatencyCap"
    STATE_CAP = "StateCap"
    DIRECTIONS = "Directions"
    NARROWING_STEP = "NarrowingStep"
    OWN_EVENT_TIME = "OwnEventTime"
    LIMITS = "Limits"
    DEAD_BAND = "DeadBand"
    DOWNSTREAM = "Downstream"
    # The live policies have these, beside some of the above.
    LEARNING = "Learning"
    BUDGET = "Budget"
    RULE = "Rule"
    AGE = "Age"
    HOLD = "Hold"
    CYCLE = "Cycle"
    STRETCH = "Stretch"

    @property
    def label(self) -> str:
        """Its name for people, such as "round up"."""
        return re.sub("(?<=[a-z])(?=[A-Z])", " ", self).lower()


@dataclass(frozen=True, slots=True)
class Conflict:
    """A bound that the target (and the policy's margin) requires, and a cap that it exceeds."""

    cap: Cap
    """The cap."""
    required_bound_ms: int
    """The bound, in milliseconds."""


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """One step of a decision."""

    kind: StepKind
    """What it does."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; null while there is none."""
    reason: str
    """Why, with the figures."""
    conflict: Conflict | None = None
    """The conflict that the step found, however it was resolved; null without one."""


def explained(steps: Sequence[DecisionStep]) -> str:
    """Return each step with its reason, in one line."""
    return "; ".join(f"{step.kind.label}: {step.reason}" for step in steps)


def deciding_step(steps: Sequence[DecisionStep]) -> DecisionStep:
    """Return the step that decides the bound: the last one that made it another, other than by rounding it."""
    deciding = steps[0]
    for before, step in pairwise(steps):
        if step.bound_ms != before.bound_ms and step.kind is not StepKind.ROUND_UP:
            deciding = step
    return deciding


def because(steps: Sequence[DecisionStep]) -> str:
    """Return what the rows need, what decides the bound, and what the bound decides behind the stream's operator."""
    wanted = {steps[0].kind, deciding_step(steps).kind, StepKind.DOWNSTREAM}
    return "; ".join(step.reason for step in steps if step.kind in wanted)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommended bound and how it came about."""

    bound_ms: int | None
    """The bound in milliseconds; None: keep the one in use."""
    steps: tuple[DecisionStep, ...]
    """The steps with their reasons, first to last."""

    @property
    def reason(self) -> str:
        """All reasons as one sentence."""
        return "; ".join(step.reason for step in self.steps)

    @property
    def because(self) -> str:
        """What decides the bound, as one sentence."""
        return because(self.steps)

    @property
    def required_ms(self) -> int | None:
        """The bound that the rows require, before any guard rail or limit, in milliseconds; None without evidence."""
        return next((step.bound_ms for step in self.steps if step.kind is StepKind.ROUND_UP), None)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The caps that the required bound exceeds, whichever side gave way."""
        return tuple(step.conflict for step in self.steps if step.conflict is not None)
