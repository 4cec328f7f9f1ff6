"""``tidemark join``: the SLO on the joined output of several streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.controller.cli.options import milliseconds_of, share_of
from tidemark.controller.cli.remote import Call, DryRunOption, JobArgument, ReasonOption, calls_controller
from tidemark.controller.cli.show import as_json, bound, duration, moment, percent, say, share, table
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.api.schemas.joins import JoinAnswer, JoinSideAnswer, JoinStateAnswer

_JoinArgument = Annotated[str, typer.Argument(metavar="JOIN", help="Name of the join, which you choose.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    join = typer.Typer(
        help="Set, list, show and delete the SLO on the joined output of several streams.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.add_typer(join, name="join")

    @join.command("set")
    @calls_controller
    def set_join(
        job: JobArgument,
        name: _JoinArgument,
        *,
        streams: Annotated[
            str | None,
            typer.Option(help="The streams that one query joins, such as 'clicks,impressions'."),
        ] = None,
        target: Annotated[
            str | None, typer.Option(help="Share of the joined pairs to come out, such as 0.99.")
        ] = None,
        window: Annotated[
            str | None,
            typer.Option(help="Rolling window over which the error budget counts, such as '30 days'."),
        ] = None,
        confidence: Annotated[
            str | None, typer.Option(help="Confidence with which the target must be met, such as 0.95.")
        ] = None,
        horizon: Annotated[
            str | None,
            typer.Option(help="How far back evidence counts, such as '1 hour', at most a day."),
        ] = None,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Set the SLO on a join's output, or change it; it decides about the bounds of its streams.

        Fields without an option stay as they are. Each stream needs an SLO of its own.
        """
        with call.open() as tidemark:
            given: dict[str, tuple[str | None, Any]] = {
                "streams": (streams, lambda text: [name.strip() for name in text.split(",")]),
                "target_ppm": (target, lambda text: share_of(text, "--target")),
                "window_ms": (window, lambda text: milliseconds_of(text, "--window")),
                "confidence_ppm": (confidence, lambda text: share_of(text, "--confidence")),
                "horizon_ms": (horizon, lambda text: milliseconds_of(text, "--horizon")),
            }
            changes = {field: read(text) for field, (text, read) in given.items() if text is not None}
            if not changes:
                raise ValueError("give at least one option, such as --target 0.99")
            found = tidemark.change_join(job, name, changes, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        return _show(f"{'would set' if dry_run else 'set'} ", job, name, found)

    @join.command("list")
    @calls_controller
    def list_joins(job: JobArgument, *, call: Call) -> None:
        """List the joins of a job, with what each has lost and what is left of its budget."""
        with call.open() as tidemark:
            found = list(tidemark.joins(job))
        if call.json:
            return as_json(found, "joins")
        rows = (
            (
                row.join,
                ", ".join(row.streams),
                share(row.target_ppm),
                _lost(row.state),
                percent(row.state.remaining_ppm),
            )
            for row in found
        )
        columns = ("join", "streams", "target", "lost", "budget left")
        return table(columns, rows, f"job {job} has no joins; set one with tidemark join set")

    @join.command("get")
    @calls_controller
    def get_join(job: JobArgument, name: _JoinArgument, *, call: Call) -> None:
        """Show the SLO on a join's output, what it needs of each stream, and what is left of its budget."""
        with call.open() as tidemark:
            found = tidemark.join(job, name)
        return as_json(found) if call.json else _show("", job, name, found)

    @join.command("delete")
    @calls_controller
    def delete_join(
        job: JobArgument,
        name: _JoinArgument,
        *,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Delete the SLO on a join's output; its streams go by their own SLOs from then on."""
        with call.open() as tidemark:
            found = tidemark.delete_join(job, name, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(found)
        return _show(f"{'would delete' if dry_run else 'deleted'} ", job, name, found)


def _show(done: str, job: str, name: str, found: JoinAnswer) -> None:
    state = found.state
    say(
        f"{done}join {name} of {job}: {share(found.target_ppm)} of the pairs at a confidence of "
        f"{share(found.confidence_ppm)}, over {duration(found.window_ms)}"
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
    table(("stream", "needs", "in use", "rows", "late", "why"), map(_row, state.sides), "")


def _lost(state: JoinStateAnswer) -> str:
    """Return between which shares of the pairs are lost."""
    if state.lost_max_ppm is None:
        return "-"
    return f"{percent(state.lost_min_ppm)} to {percent(state.lost_max_ppm)}"


def _row(side: JoinSideAnswer) -> tuple[str, ...]:
    late = "-" if side.late is None else f"{side.late:,}"
    return side.stream, bound(side.bound_ms), bound(side.in_use_bound_ms), f"{side.rows:,}", late, side.reason
