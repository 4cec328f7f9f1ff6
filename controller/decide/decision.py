"""The decision about a stream: pure, from what was loaded."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.controller.decide.load import Loaded
from tidemark.controller.rollout.record import Proposal
from tidemark.models.base.duration import format_about
from tidemark.models.evidence.progress import Progress
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.recommend.transition import Transition, transition_to
from tidemark.models.specs.slo import Policy


@dataclass(frozen=True, slots=True)
class StreamDecision:
    """What was decided about a stream."""

    loaded: Loaded
    """What it rests on."""
    recommendation: Recommendation
    """The recommendation."""
    predicted: Transition | None
    """What going to the recommended bound will do; None without one."""
    proposal: Proposal | None
    """The bound that should be published; None to keep the published one."""


def decide(loaded: Loaded) -> StreamDecision:
    """Return the decision that follows from what was loaded."""
    inputs, report_id = loaded.inputs, loaded.version.newest_report_id
    recommendation = recommend(inputs)
    bound_ms = recommendation.bound_ms
    predicted = None if bound_ms is None else transition_to(loaded.situation, bound_ms * 1_000)
    proposal = propose_without_data(inputs.policy, inputs.progress, inputs.in_use_bound_ms, report_id)
    if proposal is None and bound_ms is not None:
        proposal = Proposal(
            bound_ms, "Decision", recommendation.because, inputs.in_use_bound_ms, report_id, predicted
        )
    return StreamDecision(loaded, recommendation, predicted, proposal)


def propose_without_data(
    policy: Policy, progress: Progress, in_use_bound_ms: int | None, report_id: int
) -> Proposal | None:
    """Return what the policy proposes for a job whose reports stopped; None while they come, or to hold the bound.

    Args:
        policy: the stream's policy.
        progress: the stream's progress.
        in_use_bound_ms: the bound in use, in milliseconds; None when it is not known.
        report_id: the newest report.
    """
    if policy.on_no_data == "hold" or policy.mode == "Off" or not progress.fell_silent:
        return None
    silent = f"no report had come for {format_about(progress.silent_us or 0)}"
    if policy.on_no_data == "own":
        reason = f"{silent}: the job keeps its own bound, as the policy says"
        return Proposal(None, "NoData", reason, in_use_bound_ms, report_id)
    reason = f"{silent}: the maximum bound is published, as the policy says"
    return Proposal(policy.max_bound_ms, "NoData", reason, in_use_bound_ms, report_id)
