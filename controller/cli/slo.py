"""``tidemark slo``: the SLOs of streams."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tidemark.controller.cli.options import NONE, milliseconds_of, number_of, share_of
from tidemark.controller.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    ReasonOption,
    StreamArgument,
    calls_controller,
    streams_by_name,
)
from tidemark.controller.cli.show import (
    as_json,
    bound,
    duration,
    fail_request,
    moment,
    percent,
    say,
    share,
    show_consequences,
    show_facts,
    table,
)
from tidemark.models.base.target import parse_target
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.api.schemas.specs import SloAnswer

_REMOVABLE = f' "{NONE}" removes it.'

OnConflictOption = Literal[
    "miss-target",
    "miss_target",
    "exceed-latency-cap",
    "exceed_latency_cap",
    "exceed-state-cap",
    "exceed_state_cap",
    "none",
]
"""What ``--on-conflict`` accepts; dashes and underscores mean the same."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    slo = typer.Typer(help="Set, show, delete and list SLOs.", no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(slo, name="slo")

    @slo.command("set")
    @calls_controller
    def set_slo(
        job: JobArgument,
        stream: StreamArgument,
        *,
        target: Annotated[str | None, typer.Option(help="Share of the rows to admit, such as 0.995.")] = None,
        objective: Annotated[
            Literal["occurrences", "timeslices"] | None,
            typer.Option(
                help="What must meet the target: occurrences, all rows together; timeslices, each of most windows."
            ),
        ] = None,
        good_windows: Annotated[
            str | None,
            typer.Option(
                help="With timeslices: share of the windows that must meet the target, such as 0.99."
            ),
        ] = None,
        window: Annotated[
            str | None,
            typer.Option(help="Rolling window over which the error budget counts, such as '30 days'."),
        ] = None,
        latency_cap: Annotated[
            str | None, typer.Option(help="Maximum mean latency, such as '15 minutes'." + _REMOVABLE)
        ] = None,
        state_cap: Annotated[
            str | None, typer.Option(help="Maximum number of rows of state." + _REMOVABLE)
        ] = None,
        worst_window: Annotated[
            str | None,
            typer.Option(help="Minimum share of the rows that every window must admit." + _REMOVABLE),
        ] = None,
        on_conflict: Annotated[
            OnConflictOption | None,
            typer.Option(
                metavar="[miss-target|exceed-latency-cap|exceed-state-cap|none]",
                help="What to do when no bound meets the target and the caps together: miss-target keeps the caps and "
                "admits fewer rows; exceed-latency-cap or exceed-state-cap meets the target and exceeds that cap; "
                "none keeps the bound in use and raises a condition.",
            ),
        ] = None,
        confidence: Annotated[
            str | None, typer.Option(help="Confidence with which the target must be met, such as 0.95.")
        ] = None,
        horizon: Annotated[
            str | None, typer.Option(help="How far back evidence counts, such as '1 day'.")
        ] = None,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Set the SLO of a stream, or change it.

        Fields without an option stay as they are.
        """
        with call.open() as tidemark:
            given: dict[str, tuple[str | None, Any]] = {
                "target_ppm": (target, parse_target),
                "objective": (objective, str),
                "good_windows_ppm": (good_windows, lambda text: share_of(text, "--good-windows")),
                "window_ms": (window, lambda text: milliseconds_of(text, "--window")),
                "latency_cap_ms": (latency_cap, lambda text: milliseconds_of(text, "--latency-cap")),
                "state_cap_rows": (state_cap, lambda text: number_of(text, "--state-cap")),
                "worst_window_ppm": (worst_window, lambda text: share_of(text, "--worst-window")),
                "on_conflict": (on_conflict, lambda text: None if text == NONE else text.replace("-", "_")),
                "confidence_ppm": (confidence, lambda text: share_of(text, "--confidence")),
                "horizon_ms": (horizon, lambda text: milliseconds_of(text, "--horizon")),
            }
            changes = {name: read(text) for name, (text, read) in given.items() if text is not None}
            if not changes:
                raise ValueError("give at least one option, such as --target 0.995")
            found = tidemark.change_slo(job, stream, changes, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would set" if dry_run else "set"
        say(f"{verb} the SLO of {job}/{stream}: {slo_text(found)}")
        return show_consequences(found, None if dry_run else (job, stream))

    @slo.command("get")
    @calls_controller
    def get_slo(job: JobArgument, stream: StreamArgument, *, call: Call) -> None:
        """Show the SLO of a stream."""
        with call.open() as tidemark:
            found = tidemark.slo(job, stream)
        if found is None:
            step = f"tidemark slo set {quote(job)} {quote(stream)} --target 0.99"
            fail_request(f"no SLO is set for {job}/{stream}; `{step}` sets one")
        return as_json(found) if call.json else show_facts(_facts(found))

    @slo.command("delete")
    @calls_controller
    def delete_slo(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Delete the SLO of a stream; nothing is recommended from then on."""
        with call.open() as tidemark:
            found = tidemark.delete_slo(job, stream, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        verb = "would delete" if dry_run else "deleted"
        say(f"{verb} the SLO of {job}/{stream}: {slo_text(found)}")
        return show_consequences(found)

    @slo.command("list")
    @calls_controller
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
        if call.json:
            return as_json(found, "streams")
        rows = [
            (
                f"{row.job}/{row.stream}",
                share(row.target_ppm),
                row.mode,
                bound(row.recommended_bound_ms),
                bound(row.applied_bound_ms),
            )
            for row in found
        ]
        return table(("stream", "target", "mode", "recommended", "applied"), rows, "there are no streams yet")


def slo_text(slo: SloAnswer) -> str:
    """Return an SLO in one line."""
    parts = [f"{share(slo.target_ppm)} of the rows"]
    if slo.objective == "timeslices":
        parts = [f"{share(slo.target_ppm)} of the rows in {share(slo.good_windows_ppm)} of the windows"]
    if slo.latency_cap_ms is not None:
        parts.append(f"a mean latency of at most {duration(slo.latency_cap_ms)}")
    if slo.state_cap_rows is not None:
        parts.append(f"at most {plural(slo.state_cap_rows, 'row')} of state")
    if slo.worst_window_ppm is not None:
        parts.append(f"{share(slo.worst_window_ppm)} of the rows in every window")
    return ", ".join(parts) + (
        "" if slo.on_conflict is None else f"; on conflict: {_dashed(slo.on_conflict)}"
    )


def _dashed(on_conflict: str | None) -> str:
    return "-" if on_conflict is None else on_conflict.replace("_", "-")


def _facts(slo: SloAnswer) -> dict[str, str]:
    return {
        "target": f"{share(slo.target_ppm)} ({percent(slo.target_ppm)} of the rows)",
        "objective": slo.objective,
        "good windows": f"{share(slo.good_windows_ppm)} of the windows, where the objective is timeslices",
        "window": duration(slo.window_ms),
        "latency cap": duration(slo.latency_cap_ms),
        "state cap": "-" if slo.state_cap_rows is None else plural(slo.state_cap_rows, "row"),
        "worst window": share(slo.worst_window_ppm),
        "on conflict": _dashed(slo.on_conflict),
        "confidence": share(slo.confidence_ppm),
        "horizon": duration(slo.horizon_ms),
        "generation": f"{slo.generation}, since {moment(slo.updated_us)}",
    }
