"""``tidemark slo``, ``policy`` and ``join``: what people set for streams and joins, by the same commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from inspect import Parameter, signature
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.controller.tools.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    ReasonOption,
    StreamArgument,
    calls_controller,
    streams_by_name,
)
from tidemark.controller.tools.cli.show import (
    bound,
    duration,
    fail_request,
    moment,
    percent,
    say,
    show_consequences,
    show_facts,
    table,
)
from tidemark.controller.tools.cli.spec_options import changes_of, in_options, options_of
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.specs.freeze import format_freeze
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.joins import JoinAnswer, JoinSideAnswer, JoinStateAnswer
    from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet

_CREATE = Parameter(
    "create",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--create", help="Also for a stream that has not reported yet.")],
)
_TO_CREATE = " (--create sets it before the first report)"

_JoinArgument = Annotated[str, typer.Argument(metavar="JOIN", help="Name of the join, which you choose.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """A kind of specification, as commands set, show and delete it."""

    name: str
    """Name of the commands; the client's methods are named after it: ``slo``, ``change_slo`` and ``delete_slo``."""
    kind: type[Any]
    help: str
    set_help: str
    get_help: str
    delete_help: str
    argument: Any = StreamArgument
    """What it is set for, beside the job."""
    example: str
    """An option that sets it."""
    said: Callable[[str, str, str, Any], None]
    """Prints what was done (a verb), to which job and which stream or join, and the answer."""
    shown: Callable[[str, str, Any], None]
    """Prints it for a job and a stream or join."""
    absent: Callable[[str, str], str] = lambda job, name: f"{job}/{name} has none"
    """What to say when it is not set."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for spec in (_SLO, _POLICY, _JOIN):
        group = typer.Typer(help=spec.help, no_args_is_help=True, rich_markup_mode=None)
        app.add_typer(group, name=spec.name)
        _add_commands(group, spec)
        if spec is _SLO:
            _add_slo_lists(group)
        if spec is _JOIN:
            group.command("list")(calls_controller(_list_joins, lists=True))


def _add_commands(group: typer.Typer, spec: _Spec) -> None:
    def set_(
        job: str,
        name: str,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
        **given: Any,
    ) -> None:
        with call.open() as tidemark:
            # What a join is called is new with the join.
            known = {} if spec is _JOIN else {"create": given.pop("create")}
            changes = changes_of(spec.kind, given, spec.example)
            change = getattr(tidemark, f"change_{spec.name}")
            try:
                found = change(job, name, changes, reason=reason, dry_run=dry_run, **known)
            except RequestRejectedError as error:
                if known and error.of_kind("stream-not-found"):
                    fail_request(f"{error}{_TO_CREATE}")
                fail_request(in_options(spec.kind, error))
        if call.structured:
            return call.write(found)
        return spec.said("would set" if dry_run else "set", job, name, found)

    def get(job: str, name: str, *, call: Call) -> None:
        with call.open() as tidemark:
            found = getattr(tidemark, spec.name)(job, name)
            if found is None and spec is not _JOIN:
                # A name that there is not is answered with the nearest one.
                tidemark.status(job, name)
        if found is None:
            fail_request(spec.absent(job, name))
        return call.write(found) if call.structured else spec.shown(job, name, found)

    def delete(
        job: str, name: str, *, reason: ReasonOption = None, dry_run: DryRunOption = False, call: Call
    ) -> None:
        with call.open() as tidemark:
            found = getattr(tidemark, f"delete_{spec.name}")(job, name, reason=reason, dry_run=dry_run)
        if call.structured:
            return call.write(found)
        return spec.said("would delete" if dry_run else "deleted", job, name, found)

    options = [option.parameter for option in options_of(spec.kind)]
    if spec is not _JOIN:
        options.append(_CREATE)
    _add(group, spec, "set", set_, help_=spec.set_help, options=options)
    _add(group, spec, "get", get, help_=spec.get_help)
    _add(group, spec, "delete", delete, help_=spec.delete_help)


def _add(
    group: typer.Typer,
    spec: _Spec,
    name: str,
    command: Callable[..., None],
    *,
    help_: str,
    options: Sequence[Parameter] = (),
) -> None:
    """Add a command with what it is about, and the options of the fields before its own."""
    taken = signature(command, eval_str=True)
    own = [one for one in taken.parameters.values() if one.kind is Parameter.KEYWORD_ONLY]
    about = [
        Parameter("job", Parameter.POSITIONAL_OR_KEYWORD, annotation=JobArgument),
        Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, annotation=spec.argument),
    ]
    command.__signature__ = taken.replace(parameters=[*about, *options, *own])  # type: ignore[attr-defined]
    group.command(name, help=help_)(calls_controller(command))


# -- SLOs ------------------------------------------------------------------------------------------------------------


def _say_slo(verb: str, job: str, stream: str, found: SloSet) -> None:
    say(f"{verb} the SLO of {job}/{stream}: {slo_text(found)}")
    show_consequences(found, (job, stream) if verb == "set" else None)


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


def _show_slo(_job: str, _stream: str, slo: SloAnswer) -> None:
    show_facts(
        {
            "target": f"{percent(slo.target_ppm)} of the rows",
            "objective": slo.objective,
            "good windows": f"{percent(slo.good_windows_ppm)} of the windows, where the objective is timeslices",
            "window": duration(slo.window_ms),
            "latency cap": duration(slo.latency_cap_ms),
            "state cap": "-" if slo.state_cap_rows is None else plural(slo.state_cap_rows, "row"),
            "worst window": percent(slo.worst_window_ppm),
            "on conflict": _dashed(slo.on_conflict),
            "confidence": percent(slo.confidence_ppm),
            "horizon": "left open" if slo.horizon_ms is None else duration(slo.horizon_ms),
            "generation": f"{slo.generation}, since {moment(slo.updated_us)}",
        }
    )


_SLO = _Spec(
    name="slo",
    kind=Slo,
    help="Set, show, delete and list SLOs.",
    set_help="Set the SLO of a stream, or change it.\n\nFields without an option stay as they are.",
    get_help="Show the SLO of a stream.",
    delete_help="Delete the SLO of a stream; nothing is recommended from then on.",
    example="--target 0.995",
    said=_say_slo,
    shown=_show_slo,
    absent=lambda job, stream: (
        f"no SLO is set for {job}/{stream}; `tidemark slo set {quote(job)} {quote(stream)} --target 0.99` sets one"
    ),
)


def _add_slo_lists(group: typer.Typer) -> None:
    @group.command("list")
    @calls_controller(lists=True)
    def list_slos(
        job: Annotated[
            str | None, typer.Argument(metavar="JOB", help="Name of the job. Default: all jobs.")
        ] = None,
        *,
        call: Call,
    ) -> None:
        """List the streams with their targets and bounds."""
        with call.open() as tidemark:
            found = streams_by_name(tidemark, job)
            if not found:
                call.check_job(tidemark)
        if call.structured:
            return call.write(found, "streams")
        if call.names(f"{row.job}/{row.stream}" for row in found):
            return None
        rows = [
            (
                f"{row.job}/{row.stream}",
                percent(row.target_ppm),
                row.mode,
                bound(row.recommended_bound_ms),
                bound(row.applied_bound_ms),
            )
            for row in found
        ]
        return table(("stream", "target", "mode", "recommended", "applied"), rows, "there are no streams yet")


# -- policies --------------------------------------------------------------------------------------------------------


def _say_policy(verb: str, job: str, stream: str, found: PolicySet) -> None:
    say(f"{verb} the policy of {job}/{stream}: mode {found.mode}, bounds {_range(found)}")
    show_consequences(found, (job, stream) if verb == "set" else None)


def _range(policy: PolicyAnswer) -> str:
    minimum = duration(policy.min_bound_ms)
    if policy.max_bound_ms is None:
        return f"of at least {minimum}"
    return f"of {minimum} to {duration(policy.max_bound_ms)}"


def _show_policy(_job: str, _stream: str, policy: PolicyAnswer) -> None:
    show_facts(
        {
            "mode": policy.mode,
            "bounds": _range(policy),
            "directions": ", ".join(policy.directions),
            "margin": percent(policy.margin_ppm),
            "cooldown": duration(policy.cooldown_ms),
            "max narrowings a day": str(policy.max_narrowings_a_day or "-"),
            "max narrowing": percent(policy.max_narrowing_ppm),
            "evidence": f"{duration(policy.evidence_ms)}, {policy.evidence_windows:,} windows",
            "freeze": "; ".join(format_freeze(asdict(window)) for window in policy.freeze_windows) or "-",
            "paused": "yes" if policy.paused else "no",
            "on no data": policy.on_no_data,
            "approval": policy.approval,
            "outside gates": ", ".join(policy.gates) or "-",
            "late rows": policy.late or "what the job's call says",
            "labels": ", ".join(f"{name}={value}" for name, value in policy.labels.items()) or "-",
            "generation": f"{policy.generation}, since {moment(policy.updated_us)}",
        }
    )


_POLICY = _Spec(
    name="policy",
    kind=Policy,
    help="Set, show and delete what the controller may do to a stream.",
    set_help="Change the policy of a stream.\n\nFields without an option stay as they are.",
    get_help="Show the policy of a stream.",
    delete_help="Delete the policy of a stream; the default one holds from then on, whose mode is Off.",
    example="--mode OnRestart",
    said=_say_policy,
    shown=_show_policy,
)


# -- joins -----------------------------------------------------------------------------------------------------------


def _say_join(verb: str, job: str, name: str, found: JoinAnswer) -> None:
    state = found.state
    say(
        f"{verb} join {name} of {job}: {percent(found.target_ppm)} of the pairs at a confidence of "
        f"{percent(found.confidence_ppm)}, over {duration(found.window_ms)}".lstrip()
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
    return side.stream, bound(side.bound_ms), bound(side.in_use_bound_ms), f"{side.rows:,}", late, side.reason


def _list_joins(job: JobArgument, *, call: Call) -> None:
    """List the joins of a job, with what each has lost and what is left of its budget."""
    with call.open() as tidemark:
        found = list(tidemark.joins(job))
    if call.structured:
        return call.write(found, "joins")
    if call.names(f"{job}/{row.join}" for row in found):
        return None
    rows = (
        (
            row.join,
            ", ".join(row.streams),
            percent(row.target_ppm),
            _lost(row.state),
            percent(row.state.remaining_ppm),
        )
        for row in found
    )
    columns = ("join", "streams", "target", "lost", "budget left")
    return table(columns, rows, f"job {job} has no joins; set one with tidemark join set")


_JOIN = _Spec(
    name="join",
    kind=JoinSlo,
    help="Set, list, show and delete the SLO on the joined output of several streams.",
    set_help="Set the SLO on a join's output, or change it; it decides about the bounds of its streams.\n\n"
    "Fields without an option stay as they are. Each stream needs an SLO of its own.",
    get_help="Show the SLO on a join's output, what it needs of each stream, and what is left of its budget.",
    delete_help="Delete the SLO on a join's output; its streams go by their own SLOs from then on.",
    argument=_JoinArgument,
    example="--target 0.99",
    said=_say_join,
    shown=lambda job, name, found: _say_join("", job, name, found),
)
