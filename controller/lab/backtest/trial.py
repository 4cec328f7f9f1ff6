"""One trace under several policies, with the yardsticks to compare them with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidemark.controller.lab.traces.format import OpenTrace, PlausibleRows
from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.bounds import Fixed
from tidemark.models.backtest.catalogue import (
    FIXED_HINDSIGHT,
    FROM_THE_TRACE,
    make_policy,
    policy_for,
    policy_names,
)
from tidemark.models.backtest.run import BacktestRun, BacktestScore, meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.live.policy import BoundPolicy, Explains, Setup

TIDEMARK = "tidemark"
"""Name of the policy that is Tidemark's own."""
ALL = "all"
"""Name that stands for all policies."""
_PROGRESS_CALLS = 100
"""How often a run reports its progress."""


@dataclass(frozen=True, slots=True)
class ConstantBound:
    """The minimum constant bound that meets the target over the whole trace."""

    bound_us: int
    score: BacktestScore


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What was possible."""

    fixed: ConstantBound
    clairvoyant_us: float | None
    """A mean latency that no policy can go below; None when no window is scored."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """The result of one policy."""

    policy: str
    """Its name."""
    run: BacktestRun
    """Its batches."""
    score: BacktestScore
    """Its figures."""
    meets: bool
    """Whether it meets the target."""
    reasons: tuple[str, ...]
    """Reasons of its last decision, first to last; empty when it gives none."""


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
    outcomes: tuple[PolicyResult, ...]
    """The result of each policy."""
    live: PolicyResult | None
    """With restarts and Tidemark: what Live would have done on the same trace; else None."""


def choose_policies(wanted: Sequence[str], setup: Setup) -> list[str]:
    """Return the names without repetitions, ``all`` spelled out.

    Raises:
        ValueError: when a name is not that of a policy.
    """
    names = [name for one in wanted for name in (policy_names() if one.strip() == ALL else [one.strip()])]
    for name in names:
        if name not in FROM_THE_TRACE:
            make_policy(name, setup)
    return list(dict.fromkeys(names))


def read(
    opened: OpenTrace, setup: Setup, plausible: PlausibleRows, on_rows: Callable[[int], object]
) -> Arrivals:
    """Return what arrived; the trace is read in parts, and only what replays need stays in memory.

    Args:
        setup: the question.
        plausible: leaves out misdated rows.
        on_rows: called with the number of rows so far.

    Raises:
        TraceError: when all rows are misdated.
    """
    builder, done = ArrivalsBuilder(setup), 0
    for rows in opened.batches():
        part = plausible.of(rows)
        builder.add(part.event_time_us, part.arrival_time_us, part.partition, len(part.partitions))
        done += len(rows)
        on_rows(done)
    plausible.reject_if_none(opened.path)
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
        on_progress: called with the name of what runs and the number of slots that are done.

    Raises:
        ValueError: when a policy requires what Spark cannot do.
    """
    on_progress(FIXED_HINDSIGHT, 0)
    fixed = ConstantBound(*fixed_hindsight(arrivals, setup))
    on_progress("clairvoyant", 0)
    yardstick = Yardstick(fixed, clairvoyant(arrivals, setup))
    outcomes = []
    for name in policies:
        policy = Fixed(fixed.bound_us) if name == FIXED_HINDSIGHT else policy_for(name, arrivals, setup)
        try:
            outcomes.append(replay(name, arrivals, setup, policy, on_progress))
        except ValueError as error:
            raise ValueError(f"policy {name}: {error}") from None
    live = None
    if setup.mode == "restart" and TIDEMARK in policies:
        asked = replace(setup, mode="live")
        policy = policy_for(TIDEMARK, arrivals, asked)
        live = replay(f"{TIDEMARK}, live", arrivals, asked, policy, on_progress)
    return Trial(path, arrivals, setup, yardstick, tuple(outcomes), live)


def replay(
    name: str,
    arrivals: Arrivals,
    setup: Setup,
    policy: BoundPolicy,
    on_progress: Callable[[str, int], object],
) -> PolicyResult:
    """Return what a policy does with ``arrivals``; ``name`` is what progress and result call it.

    Raises:
        ValueError: when the policy requires what Spark cannot do.
    """
    ran = run(arrivals, setup, policy, on_slot=_throttled(name, arrivals.slots, on_progress))
    scored = score(arrivals, setup, ran)
    reasons = tuple(step.reason for step in policy.explain()) if isinstance(policy, Explains) else ()
    return PolicyResult(name, ran, scored, meets(setup, scored), reasons)


def _throttled(name: str, slots: int, on_progress: Callable[[str, int], object]) -> Callable[[int], None]:
    """Return a function that reports one slot in a hundred; a bar drawn for each would take longer than the replay."""
    step = max(1, slots // _PROGRESS_CALLS)

    def report(slot: int) -> None:
        if slot % step == 0:
            on_progress(name, slot)

    return report
