"""One trace under several policies, with the yardsticks that they are measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.controller.traces.format import OpenTrace
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.run import BacktestRun, run
from tidemark.models.backtest.score import BacktestScore, meets, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.policies.catalogue import FIXED_HINDSIGHT, make_policy, policy_names
from tidemark.models.policies.fixed import Fixed
from tidemark.models.policies.policy import Explains
from tidemark.models.policies.setup import Setup

__all__ = ["ALL", "Outcome", "Trial", "Yardstick", "choose_policies", "judge", "read"]

ALL = "all"
"""Name that stands for every policy."""
_TELLS = 100
"""How often progress is told in a run."""


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What was possible."""

    fixed_bound_us: int
    """The least constant bound that meets the target over the whole trace."""
    fixed_score: BacktestScore
    """What it does."""
    clairvoyant_us: float | None
    """A mean latency that no policy can be below; None when no window is scored."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy did."""

    policy: str
    """Its name."""
    run: BacktestRun
    """Its batches."""
    score: BacktestScore
    """Its figures."""
    meets: bool
    """Whether it meets the target."""
    reasons: tuple[str, ...]
    """Why it decided as it did in the end, first to last; empty when it does not tell."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trace under several policies."""

    path: Path
    """The trace, as it was named."""
    arrivals: Arrivals
    """What arrived."""
    setup: Setup
    """The question."""
    yardstick: Yardstick
    """What was possible."""
    outcomes: tuple[Outcome, ...]
    """What each policy did."""


def choose_policies(wanted: Sequence[str], setup: Setup) -> list[str]:
    """Return the names without repetitions, ``all`` spelled out.

    Raises:
        ValueError: when a name is no policy's.
    """
    names = [name for one in wanted for name in (policy_names() if one.strip() == ALL else [one.strip()])]
    for name in names:
        if name != FIXED_HINDSIGHT:
            make_policy(name, setup)
    return list(dict.fromkeys(names))


def read(opened: OpenTrace, setup: Setup, on_rows: Callable[[int], object]) -> Arrivals:
    """Return what arrived; the trace is read in parts, and only what replays need is kept.

    Args:
        opened: the trace.
        setup: the question.
        on_rows: called with the number of rows of each part.
    """
    builder = ArrivalsBuilder(setup)
    for part in opened.batches():
        builder.add(part.event_time_us, part.arrival_time_us, part.partition, len(part.partitions))
        on_rows(len(part))
    return builder.build()


def judge(
    path: Path,
    arrivals: Arrivals,
    setup: Setup,
    policies: Sequence[str],
    on_progress: Callable[[str, int], object],
) -> Trial:
    """Run each policy over a trace.

    Args:
        path: the trace, as it was named.
        arrivals: what arrived.
        setup: the question.
        policies: names of policies.
        on_progress: called with what is being run and the slots it has done.

    Raises:
        ValueError: when a policy wants what the engine cannot do.
    """
    on_progress(FIXED_HINDSIGHT, 0)
    bound_us, fixed_score = fixed_hindsight(arrivals, setup)
    on_progress(FIXED_HINDSIGHT, arrivals.slots)
    on_progress("clairvoyant", 0)
    yardstick = Yardstick(bound_us, fixed_score, clairvoyant(arrivals, setup))
    on_progress("clairvoyant", arrivals.slots)
    outcomes = []
    for name in policies:
        policy = Fixed(bound_us) if name == FIXED_HINDSIGHT else make_policy(name, setup)
        try:
            ran = run(arrivals, setup, policy, on_slot=_seldom(name, arrivals.slots, on_progress))
        except ValueError as error:
            raise ValueError(f"policy {name}: {error}") from None
        scored = score(arrivals, setup, ran)
        reasons = tuple(step.reason for step in policy.explain()) if isinstance(policy, Explains) else ()
        outcomes.append(Outcome(name, ran, scored, meets(setup, scored), reasons))
    return Trial(path, arrivals, setup, yardstick, tuple(outcomes))


def _seldom(name: str, slots: int, on_progress: Callable[[str, int], object]) -> Callable[[int], None]:
    """Return what tells of a slot in a hundred: a bar that is drawn for each would take longer than the replay."""
    step = max(1, slots // _TELLS)

    def told(slot: int) -> None:
        if slot % step == 0:
            on_progress(name, slot)

    return told
