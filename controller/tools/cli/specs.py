"""``tidemark slo``, ``policy`` and ``join``: what people set for streams and joins, by the same commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

from tidemark.controller.tools.cli.run import CommandAnswer, check_job, streams_by_name
from tidemark.controller.tools.cli.shape import fail_request
from tidemark.controller.tools.cli.show import (
    duration,
    moment,
    percent,
    say,
    show_consequences,
    show_facts,
    table,
)
from tidemark.controller.tools.cli.spec_options import changes_of, facts_of, in_options
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.specs.slo import Policy

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.joins import JoinAnswer, JoinSideAnswer, JoinStateAnswer
    from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
    from tidemark.controller.tools.client.client import Client

_TO_CREATE = " (--create sets it before the first report)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """A kind of specification, as commands set, show and delete it."""

    name: str
    """Its name; the client's operations are named after it: ``slo``, ``change_slo`` and ``delete_slo``."""
    example: str
    """An option that sets it."""
    tell: Callable[[str, str, str, Any], None]
    """Prints what was done (a verb), to which job and which stream or join, and the answer."""
    show: Callable[[str, str, Any], None] | None = None
    """Prints it for a job and a stream or join; None: its fields."""
    absent: Callable[[str, str], str] = lambda job, name: f"{job}/{name} has none"
    """What to say when it is not set."""


def _set(
    spec: _Spec, tidemark: Client, job: str, name: str, *, reason: str | None, dry_run: bool, **options: Any
) -> CommandAnswer:
    # What a join is called is new with the join.
    create = {"create": options.pop("create")} if "create" in options else {}
    changes = changes_of(spec.name, options, spec.example)
    try:
        answer = getattr(tidemark, f"change_{spec.name}")(job, name, changes, reason, dry_run, **create)
    except RequestRejectedError as error:
        if create and error.of_kind("stream-not-found"):
            fail_request(f"{error}{_TO_CREATE}")
        fail_request(in_options(spec.name, error))
    return CommandAnswer(answer, lambda: spec.tell("would set" if dry_run else "set", job, name, answer))


def _get(spec: _Spec, tidemark: Client, job: str, name: str) -> CommandAnswer:
    answer = getattr(tidemark, spec.name)(job, name)
    if answer is None:
        # A name that there is not is answered with the nearest one.
        tidemark.status(job, name)
        fail_request(spec.absent(job, name))
    show = spec.show or (lambda *_: _show_fields(spec.name, answer))
    return CommandAnswer(answer, lambda: show(job, name, answer))


def _show_fields(name: str, answer: SloAnswer | PolicyAnswer) -> None:
    paused = {"paused": "yes" if answer.paused else "no"} if isinstance(answer, Policy) else {}
    generation = f"{answer.generation}, since {moment(answer.updated_us)}"
    show_facts({**facts_of(name, answer), **paused, "generation": generation})


def _delete(
    spec: _Spec, tidemark: Client, job: str, name: str, *, reason: str | None, dry_run: bool
) -> CommandAnswer:
    answer = getattr(tidemark, f"delete_{spec.name}")(job, name, reason, dry_run)
    verb = "would delete" if dry_run else "deleted"
    return CommandAnswer(answer, lambda: spec.tell(verb, job, name, answer))


# -- SLOs ------------------------------------------------------------------------------------------------------------


def _tell_slo(verb: str, job: str, stream: str, slo: SloSet) -> None:
    say(f"{verb} the SLO of {job}/{stream}: {slo_text(slo)}")
    show_consequences(slo, (job, stream) if verb == "set" else None)


def slo_text(slo: SloAnswer) -> str:
    """Return an SLO in one line."""
    parts = [f"{percent(slo.target_ppm)} of the rows"]
    if slo.objective == "timeslices":
        parts = [f"{percent(slo.target_ppm)} of the rows in {percent(slo.good_windows_ppm)} of the windows"]
    if slo.latency_cap_ms is not None:
        parts.append(f"a mean latency of at most {duration(slo.latency_cap_ms)}")
    if slo.state_cap_rows is not None:
        parts.append(f"at most {plural(slo.state_cap_rows, 'row')} of state")
    if slo.worst_window_ppm is not None:
        parts.append(f"{percent(slo.worst_window_ppm)} of the rows in every window")
    return ", ".join(parts) + (
        "" if slo.on_conflict is None else f"; on conflict: {_dashed(slo.on_conflict)}"
    )


def _dashed(on_conflict: str | None) -> str:
    return "-" if on_conflict is None else on_conflict.replace("_", "-")


def list_slos(tidemark: Client, job: str | None) -> CommandAnswer:
    """List the streams with their targets and bounds."""
    streams = streams_by_name(tidemark, job)
    if not streams:
        check_job(tidemark, job)
    rows = [
        (
            f"{row.job}/{row.stream}",
            percent(row.target_ppm),
            row.mode,
            duration(row.recommended_bound_ms),
            duration(row.applied_bound_ms),
        )
        for row in streams
    ]
    columns = ("stream", "target", "mode", "recommended", "applied")
    return CommandAnswer({"streams": streams}, lambda: table(columns, rows, "there are no streams yet"))


_SLO = _Spec(
    name="slo",
    example="--target 0.995",
    tell=_tell_slo,
    absent=lambda job, stream: (
        f"no SLO is set for {job}/{stream}; `tidemark slo set {quote(job)} {quote(stream)} --target 0.99` sets one"
    ),
)
set_slo, get_slo, delete_slo = partial(_set, _SLO), partial(_get, _SLO), partial(_delete, _SLO)


# -- policies --------------------------------------------------------------------------------------------------------


def _tell_policy(verb: str, job: str, stream: str, policy: PolicySet) -> None:
    say(f"{verb} the policy of {job}/{stream}: mode {policy.mode}, bounds {_range(policy)}")
    show_consequences(policy, (job, stream) if verb == "set" else None)


def _range(policy: PolicyAnswer) -> str:
    minimum = duration(policy.min_bound_ms)
    if policy.max_bound_ms is None:
        return f"of at least {minimum}"
    return f"of {minimum} to {duration(policy.max_bound_ms)}"


_POLICY = _Spec(name="policy", example="--mode OnRestart", tell=_tell_policy)
set_policy, get_policy, delete_policy = (
    partial(_set, _POLICY),
    partial(_get, _POLICY),
    partial(_delete, _POLICY),
)


# -- joins -----------------------------------------------------------------------------------------------------------


def _tell_join(verb: str, job: str, name: str, join: JoinAnswer) -> None:
    state = join.state
    say(
        f"{verb} join {name} of {job}: {percent(join.target_ppm)} of the pairs at a confidence of "
        f"{percent(join.confidence_ppm)}, over {duration(join.window_ms)}".lstrip()
    )
    if state.batches:
        missing = f", {state.missing_batches:,} missing between them" if state.missing_batches else ""
        say(
            f"  evidence: {plural(state.batches, 'batch', 'batches')}, {moment(state.from_us)} to "
            f"{moment(state.to_us)}{missing}"
        )
    if state.lost_max_ppm is not None:
        say(f"  lost: {_lost(state)} of the pairs; {percent(state.remaining_ppm)} of the budget is left")
    if state.common_bound_ms is not None:
        say(f"  one bound for all would be {duration(state.common_bound_ms)}")
    if state.provisional_bound_ms is not None:
        say(f"  provisionally one bound for all would be {duration(state.provisional_bound_ms)}")
    table(("stream", "needs", "in use", "rows", "late", "why"), map(_side, state.sides), "")


def _lost(state: JoinStateAnswer) -> str:
    """Return between which shares of the pairs are lost."""
    if state.lost_max_ppm is None:
        return "-"
    return f"{percent(state.lost_min_ppm)} to {percent(state.lost_max_ppm)}"


def _side(side: JoinSideAnswer) -> tuple[str, ...]:
    late = "-" if side.late is None else f"{side.late:,}"
    return (
        side.stream,
        duration(side.bound_ms),
        duration(side.in_use_bound_ms),
        f"{side.rows:,}",
        late,
        side.reason,
    )


def list_joins(tidemark: Client, job: str) -> CommandAnswer:
    """List the joins of a job, with what each has lost and what is left of its budget."""
    joins = list(tidemark.joins(job))
    rows = [
        (
            row.join,
            ", ".join(row.streams),
            percent(row.target_ppm),
            _lost(row.state),
            percent(row.state.remaining_ppm),
        )
        for row in joins
    ]
    columns, empty = (
        ("join", "streams", "target", "lost", "budget left"),
        f"job {job} has no joins; set one with tidemark join set",
    )
    return CommandAnswer({"joins": joins}, lambda: table(columns, rows, empty))


_JOIN = _Spec(
    name="join",
    example="--target 0.99",
    tell=_tell_join,
    show=lambda job, name, join: _tell_join("", job, name, join),
)
set_join, get_join, delete_join = partial(_set, _JOIN), partial(_get, _JOIN), partial(_delete, _JOIN)
