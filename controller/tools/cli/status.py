"""``tidemark status`` and ``why``: the state of the fleet, a job or a stream, and why a stream has its bound."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.run import CommandAnswer, streams_by_name
from tidemark.controller.tools.cli.show import (
    decision,
    duration,
    moment,
    percent,
    rollout_line,
    say,
    show_facts,
    table,
)
from tidemark.controller.tools.cli.specs import slo_text
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemark.controller.server.schemas.fleet import FleetStream, JobStatus, JobSummary
    from tidemark.controller.server.schemas.streams import Completeness, Evidence, StreamStatus
    from tidemark.controller.tools.client.client import Client
    from tidemark.controller.view.state.answers import Budget
    from tidemark.models.live.kept import KeptLive

_HISTORY = (
    "tidemark trace --from kafka --bootstrap-servers HOST:PORT --topic TOPIC --event-time COLUMN --since 1h "
    "-o hour.parquet; tidemark curve hour.parquet"
)
"""What shows an hour of a topic in a minute, before the job has reported for an hour."""


def status(tidemark: Client, job: str | None, stream: str | None) -> CommandAnswer:
    """Show how all jobs, one job or one of its streams are doing."""
    if job is None:
        jobs = list(tidemark.jobs())
        return CommandAnswer({"jobs": jobs}, lambda: _show_jobs(jobs))
    if stream is None:
        of_job, streams = tidemark.job(job), streams_by_name(tidemark, job)
        return CommandAnswer(of_job, lambda: _show_streams(of_job, streams))
    of_stream = tidemark.status(job, stream)
    return CommandAnswer(of_stream, lambda: _show_stream(of_stream))


def why(tidemark: Client, job: str, stream: str, *, every: bool) -> CommandAnswer:
    """Say why a stream has the bound that it has: the step that decides, or each step."""
    state = tidemark.status(job, stream)

    def show() -> None:
        say(why_text(state))
        if every:
            _show_steps(state)

    return CommandAnswer({"summary": state.summary, "recommended": state.recommended}, show)


def _show_jobs(jobs: list[JobSummary]) -> None:
    rows = [
        (
            job.job,
            str(job.streams),
            ", ".join(f"{count.streams} {count.mode}" for count in job.modes),
            "fine" if job.worst is None else f"{job.worst.type} in {job.worst.stream}",
        )
        for job in jobs
    ]
    table(("job", "streams", "modes", "worst"), rows, "there are no jobs yet: none has reported")


def _show_streams(job: JobStatus, streams: Iterable[FleetStream]) -> None:
    rows = [
        (row.stream, row.mode, percent(row.target_ppm), _expected(row), duration(row.applied_bound_ms))
        for row in streams
    ]
    table(("stream", "mode", "target", "recommended", "applied"), rows, "there are no streams")
    if job.pin is not None:
        say(f"pinned to {job.pin.to} by the pin on the {job.pin.scope}: {job.pin.reason}")
    for condition in job.conditions:
        say(f"{condition.stream}: {condition.type}: {condition.detail}")
    if job.more_conditions:
        say(f"and {plural(job.more_conditions, 'more condition')}")


def _expected(row: FleetStream) -> str:
    """Return the recommended bound, or the estimate while there is none."""
    provisional = row.provisional_bound
    if row.recommended_bound_ms is not None or provisional is None:
        return duration(row.recommended_bound_ms)
    least = f", at least {duration(provisional.min_bound_ms)}" if provisional.min_bound_ms else ""
    most = "" if provisional.max_bound_ms is None else f", at most {duration(provisional.max_bound_ms)}"
    return f"provisionally {duration(provisional.bound_ms)}{least}{most}"


def _show_stream(state: StreamStatus) -> None:
    counted = "row" if (state.windows_per_row or 1) == 1 else "(row, window) pair"
    facts = {
        "stream": f"{state.job}/{state.stream}, mode {state.mode}",
        "now": state.summary,
        "SLO": "none is set" if state.slo is None else slo_text(state.slo),
        "completeness": _completeness(state.completeness, counted),
        "in use": f"{duration(state.in_use_bound_ms)}, effective {duration(state.effective_bound_ms)}",
        "acknowledged": "nothing yet"
        if state.applied is None
        else f"{duration(state.applied.bound_ms)}, {_generation(state.applied.generation)}, "
        f"at {moment(state.applied.applied_us)}",
        "recommended": _recommended(state),
        "published": _published(state),
        "evidence": _evidence(state.evidence, counted),
    }
    if state.provisional_bound is not None:
        if state.provisional_bound.text not in state.summary:
            facts["provisional"] = state.provisional_bound.text
        facts["an hour at once"] = f"where the source is a Kafka topic: {_HISTORY}"
    if state.frozen_until_us is not None:
        facts["frozen"] = (
            f"nothing is narrowed until {moment(state.frozen_until_us)}, by a freeze window of its policy"
        )
    if state.late.policy is not None or state.late.choices:
        facts["late rows"] = state.late.text
    if state.live is not None:
        facts["live"] = _live(state.live)
    if state.rollout is not None:
        facts["rollout"] = rollout_line(state.rollout)
    if state.transition is not None:
        facts["expected effect"] = state.transition.text
    if state.budget is not None:
        facts["budget"] = _budget(state.budget, counted)
    show_facts(facts)
    for condition in state.conditions:
        say(f"{condition.type}: {condition.detail}")


def _live(state: KeptLive) -> str:
    counts = {"idle": state.idle_partitions, "behind": state.behind_partitions}
    waiting = [f"{plural(count, 'partition')} {what}" for what, count in counts.items() if count]
    return "; ".join([state.reason, *waiting])


def _evidence(seen: Evidence, counted: str) -> str:
    if not seen.batches:
        return "none yet: the job has not reported"
    return (
        f"{plural(seen.rows, counted)} in {plural(seen.batches, 'batch', 'batches')} of "
        f"{plural(seen.partitions, 'partition')}, {moment(seen.from_us)} to {moment(seen.to_us)}"
    )


def _completeness(seen: Completeness, counted: str) -> str:
    if seen.min_ppm is None or seen.max_ppm is None:
        return "unknown: no rows yet"
    share = percent(seen.min_ppm)
    if seen.min_ppm != seen.max_ppm:
        share = f"{share} to {percent(seen.max_ppm)}"
    text = f"{share} of {plural(seen.rows, counted)}" + (", provisional" if seen.provisional else "")
    if not seen.corrected_max:
        return text
    # Unlike the others, these are in a later version of their window.
    corrected = _range(seen.corrected_min, seen.corrected_max)
    lost = _range(max(seen.late_min - seen.corrected_max, 0), seen.late_max - seen.corrected_min)
    return f"{text}; of the late rows {corrected} corrected a window, and {lost} came after the grace"


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _budget(budget: Budget, counted: str) -> str:
    what = f"{counted}s" if budget.objective == "occurrences" else "windows"
    bad = f"{budget.bad_max:,}"
    if budget.bad_min != budget.bad_max:
        bad = f"{budget.bad_min:,} to {bad}"
    reason = f"{bad} of the {budget.allowed:,} {what} that may be lost of {budget.counted:,}"
    over = f"in {duration(budget.window_ms)}"
    if budget.remaining_ppm is None:
        return f"{reason} {over}"
    return f"{percent(budget.remaining_ppm)} left: {reason} {over}"


def _recommended(state: StreamStatus) -> str:
    if state.recommended is None:
        return "nothing yet"
    recommended = state.recommended
    what = "keep the bound in use" if recommended.bound_ms is None else duration(recommended.bound_ms)
    return f"{what}, decided at {moment(recommended.decided_us)}; {decision(recommended)}"


def _published(state: StreamStatus) -> str:
    published = state.published
    what = "the job keeps its own bound" if published.bound_ms is None else duration(published.bound_ms)
    if published.published_us is None:
        return f"{what}; {published.reason}"
    return f"{what}, {_generation(published.generation)}, at {moment(published.published_us)}"


def _generation(generation: int | None) -> str:
    return "the job's own bound" if generation is None else f"generation {generation}"


def why_text(state: StreamStatus) -> str:
    """Return why a stream has the bound that it has, in one sentence."""
    recommended = state.recommended
    if recommended is None or recommended.bound_ms is None:
        return state.summary
    return f"{duration(recommended.bound_ms)} is recommended: {decision(recommended)}"


def _show_steps(state: StreamStatus) -> None:
    say(f"now: {state.summary}")
    if state.recommended is None:
        return say(f"next: tidemark slo set {quote(state.job)} {quote(state.stream)} --target 99.5%")
    decided_by = state.recommended.decided_by
    rows = [
        (f"{'*' if step.kind == decided_by else ' '} {step.kind.label}", duration(step.bound_ms), step.reason)
        for step in state.recommended.steps
    ]
    say(f"decided at {moment(state.recommended.decided_us)}, by the step with a star:")
    table(("  step", "bound", "why"), rows, "")
    if state.transition is not None:
        say(f"expected effect: {state.transition.text}")
    if state.rollout is not None:
        say(f"rollout {rollout_line(state.rollout)}")
    return None
