"""``tidemark status``: the state of the fleet, a job or a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemark.controller.tools.cli.remote import (
    Call,
    SomeJobArgument,
    SomeStreamArgument,
    calls_controller,
    streams_by_name,
)
from tidemark.controller.tools.cli.show import (
    bound,
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
    from collections.abc import Callable, Iterable

    from tidemark.controller.server.schemas.fleet import FleetStream, JobStatus, JobSummary
    from tidemark.controller.server.schemas.streams import Completeness, Evidence, Live, StreamStatus
    from tidemark.controller.view.state.answers import Budget


_HISTORY = (
    "tidemark trace --from kafka --bootstrap-servers HOST:PORT --topic TOPIC --event-time COLUMN --since 1h "
    "-o hour.parquet; tidemark curve hour.parquet"
)
"""What shows an hour of a topic in a minute, before the job has reported for an hour."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("status")
    @calls_controller(lists=True, watch=True)
    def status(job: SomeJobArgument = None, stream: SomeStreamArgument = None, *, call: Call) -> None:
        """Show how all jobs, one job or one of its streams are doing; -o wide lists each stream of the fleet."""
        with call.open() as tidemark:
            if stream is not None and job is not None:
                one = tidemark.status(job, stream)
                return _print(call, one, [f"{job}/{stream}"], lambda: _show_stream(one))
            if job is None and not call.wide:
                jobs = list(tidemark.jobs())
                return _print(call, {"jobs": jobs}, [one.job for one in jobs], lambda: _show_jobs(jobs))
            found = None if job is None else tidemark.job(job)
            streams = [] if call.structured else streams_by_name(tidemark, job)
            names = [f"{row.job}/{row.stream}" for row in streams]
            return _print(call, found, names, lambda: _show_streams(found, streams, wide=call.wide))


def _print(call: Call, answer: object, names: list[str], show: Callable[[], None]) -> None:
    if call.structured:
        call.write(answer)
    elif not call.names(names):
        show()


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


def _show_streams(job: JobStatus | None, streams: Iterable[FleetStream], *, wide: bool) -> None:
    rows = [
        (
            row.stream if job is not None else f"{row.job}/{row.stream}",
            row.mode,
            percent(row.target_ppm),
            _expected(row),
            bound(row.applied_bound_ms),
            *(_more(row) if wide else ()),
        )
        for row in streams
    ]
    columns = ("stream", "mode", "target", "recommended", "applied", *(_MORE if wide else ()))
    table(columns, rows, "there are no streams")
    if job is None:
        return
    if job.pin is not None:
        say(f"pinned to {job.pin.to} by the pin on the {job.pin.scope}: {job.pin.reason}")
    for condition in job.conditions:
        say(f"{condition.stream}: {condition.type}: {condition.detail}")
    if job.more_conditions:
        say(f"and {plural(job.more_conditions, 'more condition')}")


def _expected(row: FleetStream) -> str:
    """Return the recommended bound, or the estimate while there is none."""
    found = row.provisional_bound
    if row.recommended_bound_ms is not None or found is None:
        return bound(row.recommended_bound_ms)
    least = f", at least {bound(found.min_bound_ms)}" if found.min_bound_ms else ""
    most = "" if found.max_bound_ms is None else f", at most {bound(found.max_bound_ms)}"
    return f"provisionally {bound(found.bound_ms)}{least}{most}"


_MORE = ("in use", "completeness", "budget left", "rollout", "newest batch", "worst")
"""Further columns of the wide table."""


def _more(row: FleetStream) -> tuple[str, ...]:
    least, most = row.completeness_min_ppm, row.completeness_max_ppm
    return (
        bound(row.in_use_bound_ms),
        percent(least) if least == most else f"{percent(least)} to {percent(most)}",
        percent(row.budget_remaining_ppm),
        "-" if row.rollout is None else f"{row.rollout.id} {row.rollout.state}",
        moment(row.last_batch_us),
        "fine" if row.worst is None else row.worst.type,
    )


def _show_stream(found: StreamStatus) -> None:
    counted = "row" if (found.windows_per_row or 1) == 1 else "(row, window) pair"
    facts = {
        "stream": f"{found.job}/{found.stream}, mode {found.mode}",
        "now": found.summary,
        "SLO": "none is set" if found.slo is None else slo_text(found.slo),
        "completeness": _completeness(found.completeness, counted),
        "in use": f"{bound(found.in_use_bound_ms)}, effective {bound(found.effective_bound_ms)}",
        "acknowledged": "nothing yet"
        if found.applied is None
        else f"{bound(found.applied.bound_ms)}, {_generation(found.applied.generation)}, "
        f"at {moment(found.applied.applied_us)}",
        "recommended": _recommended(found),
        "published": _published(found),
        "evidence": _evidence(found.evidence, counted),
    }
    if found.provisional_bound is not None:
        if found.provisional_bound.text not in found.summary:
            facts["provisional"] = found.provisional_bound.text
        facts["an hour at once"] = f"where the source is a Kafka topic: {_HISTORY}"
    if found.frozen_until_us is not None:
        facts["frozen"] = (
            f"nothing is narrowed until {moment(found.frozen_until_us)}, by a freeze window of its policy"
        )
    if found.late.policy is not None or found.late.choices:
        facts["late rows"] = found.late.text
    if found.live is not None:
        facts["live"] = _live(found.live)
    if found.rollout is not None:
        facts["rollout"] = rollout_line(found.rollout)
    if found.transition is not None:
        facts["expected effect"] = found.transition.text
    if found.budget is not None:
        facts["budget"] = _budget(found.budget, counted)
    show_facts(facts)
    for condition in found.conditions:
        say(f"{condition.type}: {condition.detail}")


def _live(state: Live) -> str:
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


def _recommended(found: StreamStatus) -> str:
    if found.recommended is None:
        return "nothing yet"
    recommended = found.recommended
    what = "keep the bound in use" if recommended.bound_ms is None else bound(recommended.bound_ms)
    return f"{what}, decided at {moment(recommended.decided_us)}; {decision(recommended)}"


def _published(found: StreamStatus) -> str:
    published = found.published
    what = "the job keeps its own bound" if published.bound_ms is None else bound(published.bound_ms)
    if published.published_us is None:
        return f"{what}; {published.reason}"
    return f"{what}, {_generation(published.generation)}, at {moment(published.published_us)}"


def _generation(generation: int | None) -> str:
    return "the job's own bound" if generation is None else f"generation {generation}"
