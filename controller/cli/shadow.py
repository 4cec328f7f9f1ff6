"""``tidemark shadow``: what is tried beside the SLO in force of a stream."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tidemark.controller.cli.options import NONE, milliseconds_of, number_of
from tidemark.controller.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    ReasonOption,
    StreamArgument,
    calls_controller,
)
from tidemark.controller.cli.show import (
    as_json,
    bound,
    duration,
    fail_request,
    measured,
    moment,
    percent,
    say,
    share,
    show_consequences,
    table,
)
from tidemark.controller.cli.specs import slo_text
from tidemark.models.base.target import parse_target
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.api.schemas.shadow import ShadowAnswer, ShadowOutcome

_REMOVABLE = f' "{NONE}" for none.'


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    shadow = typer.Typer(
        help="Try another target beside the SLO in force, show what it would do, promote or remove it.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(shadow, name="shadow")

    @shadow.command("set")
    @calls_controller
    def set_shadow(
        job: JobArgument,
        stream: StreamArgument,
        *,
        target: Annotated[str | None, typer.Option(help="Share of the rows to admit, such as 0.999.")] = None,
        latency_cap: Annotated[
            str | None, typer.Option(help="Maximum mean latency, such as '15 minutes'." + _REMOVABLE)
        ] = None,
        state_cap: Annotated[
            str | None, typer.Option(help="Maximum number of rows of state." + _REMOVABLE)
        ] = None,
        on_conflict: Annotated[
            Literal[
                "miss-target",
                "miss_target",
                "exceed-latency-cap",
                "exceed_latency_cap",
                "exceed-state-cap",
                "exceed_state_cap",
                "none",
            ]
            | None,
            typer.Option(
                metavar="[miss-target|exceed-latency-cap|exceed-state-cap|none]",
                help="What to do when no bound meets the target and the caps together, as in `tidemark slo set`.",
            ),
        ] = None,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Try a target and caps beside the SLO in force.

        They are decided and counted with it, and never published. Fields without an option are those of the shadow
        that there is, or else of the SLO. What was counted begins anew.
        """
        with call.open() as tidemark:
            given: dict[str, tuple[str | None, Any]] = {
                "target_ppm": (target, parse_target),
                "latency_cap_ms": (latency_cap, lambda text: milliseconds_of(text, "--latency-cap")),
                "state_cap_rows": (state_cap, lambda text: number_of(text, "--state-cap")),
                "on_conflict": (on_conflict, lambda text: None if text == NONE else text.replace("-", "_")),
            }
            changes = {name: read(text) for name, (text, read) in given.items() if text is not None}
            if not changes:
                raise ValueError("give at least one option, such as --target 0.999")
            found = tidemark.change_shadow(job, stream, changes, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        say(f"{'would try' if dry_run else 'tries'} beside the SLO of {job}/{stream}: {_tried_text(found)}")
        return _show_decision(found)

    @shadow.command("show")
    @calls_controller
    def show(job: JobArgument, stream: StreamArgument, *, call: Call) -> None:
        """Show what a shadow would have admitted and cost, beside what the bounds in use did."""
        with call.open() as tidemark:
            found = tidemark.shadow(job, stream)
        if found is None:
            step = f"tidemark shadow set {quote(job)} {quote(stream)} --target 0.999"
            fail_request(f"nothing is tried beside the SLO of {job}/{stream}; `{step}` tries a target")
        if call.json:
            return as_json(found)
        say(f"tried beside the SLO of {job}/{stream} since {moment(found.since_us)}: {_tried_text(found)}")
        say(f"  why: {found.reason}")
        _show_decision(found)
        return _show_outcomes(found)

    @shadow.command("remove")
    @calls_controller
    def remove(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Remove a shadow; the event keeps what was counted."""
        with call.open() as tidemark:
            found = tidemark.delete_shadow(job, stream, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} the shadow of {job}/{stream}: {_tried_text(found)}")
        return _show_outcomes(found)

    @shadow.command("promote")
    @calls_controller
    def promote(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Make a shadow the SLO in force.

        The shadow is removed, and the bound that follows is rolled out as the policy allows.
        """
        with call.open() as tidemark:
            before = tidemark.slo(job, stream)
            found = tidemark.promote_shadow(job, stream, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would make" if dry_run else "made"
        say(f"{verb} the shadow of {job}/{stream} its SLO: {slo_text(found)}")
        if before is not None:
            say(f"  before: {slo_text(before)}")
        return show_consequences(found)


def _tried_text(found: ShadowAnswer) -> str:
    parts = [f"{share(found.target_ppm)} of the rows"]
    if found.latency_cap_ms is not None:
        parts.append(f"a mean latency of at most {duration(found.latency_cap_ms)}")
    if found.state_cap_rows is not None:
        parts.append(f"at most {plural(found.state_cap_rows, 'row')} of state")
    if found.on_conflict is not None:
        parts.append(f"on conflict {found.on_conflict.replace('_', '-')}")
    return ", ".join(parts)


def _show_decision(found: ShadowAnswer) -> None:
    if found.because is not None:
        say(f"  its bound: {bound(found.shadow.bound_ms)}; {found.because}")
    for note in found.notes:
        say(f"  note: {note}")


def _show_outcomes(found: ShadowAnswer) -> None:
    rows = [_row("all", "in use", found.in_use), _row("", "shadow", found.shadow)]
    for day in found.days if len(found.days) > 1 else ():
        rows += [
            _row(moment(day.from_us)[:10], "in use", day.in_use),
            _row("", "shadow", day.shadow),
        ]
    columns = ("day", "bounds", "newest", "admitted", "rows", "late", "unknown", "windows", "mean latency")
    table(columns, rows, "")


def _row(when: str, which: str, found: ShadowOutcome) -> tuple[str, ...]:
    low, high = percent(found.completeness_min_ppm), percent(found.completeness_max_ppm)
    late = (
        f"{found.late_min:,}"
        if found.late_min == found.late_max
        else f"{found.late_min:,} to {found.late_max:,}"
    )
    return (
        when,
        which,
        bound(found.bound_ms),
        low if low == high else f"{low} to {high}",
        f"{found.rows:,}",
        late if found.rows else "-",
        f"{found.unknown_rows:,}",
        f"{found.windows:,}",
        measured(found.latency_wall_ms),
    )
