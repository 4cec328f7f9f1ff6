"""``tidemark rollouts``, ``approve``, ``discard``, ``rollback``, ``pause`` and ``resume``: a person's say."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from tidemark.controller.cli.fail import refused
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    DryRunOption,
    JobArgument,
    JsonOption,
    SomeJobArgument,
    SomeStreamArgument,
    StreamArgument,
    TokenFileOption,
    UrlOption,
    asking,
)
from tidemark.controller.cli.show import as_json, bound, moment, table
from tidemark.models.rollout.states import CANDIDATE, OPEN, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemark.controller.api.schemas import RolloutAnswer
    from tidemark.controller.client.client import Client

__all__ = ["register"]

IdArgument = Annotated[
    int, typer.Argument(metavar="ROLLOUT", min=1, help="Its number, as `tidemark rollouts` shows it.")
]
WhyOption = Annotated[str, typer.Option("--reason", help="Why, for the event that it leaves.")]

_TOLD: tuple[State, ...] = ("Published", "Acknowledged", "Effective", "Verified")
"""States in which jobs are told of a rollout, so that it can be rolled back."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    _register_list(app)
    _register_approve(app)
    _register_discard(app)
    _register_rollback(app)
    _register_pause(app)


def _register_list(app: typer.Typer) -> None:
    @app.command("rollouts")
    def rollouts(
        job: SomeJobArgument = None,
        stream: SomeStreamArgument = None,
        *,
        state: Annotated[
            list[str] | None,
            typer.Option(
                help="Only those in this state; may be given more than once. Else those that are open."
            ),
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
        limit: Annotated[int, typer.Option(min=1, help="Greatest number of rollouts.")] = 100,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """List rollouts, the newest first: those that are open, in one state, or all."""
        with asking(url, token_file) as tidemark:
            states = _states(state) if state else () if every else tuple(sorted(OPEN))
            found = list(islice(tidemark.rollouts(job, stream, states=states), limit))
        if json:
            return as_json(found, "rollouts")
        rows = [
            (
                str(row.id),
                f"{row.job}/{row.stream}",
                row.state,
                _change(row),
                moment(row.changed_us),
                row.reason,
            )
            for row in found
        ]
        columns = ("id", "stream", "state", "change", "since", "why")
        return table(columns, rows, "there are no such rollouts" if state or every else "no rollout is open")


def _register_approve(app: typer.Typer) -> None:
    @app.command("approve")
    def approve(
        rollout: IdArgument,
        *,
        reason: WhyOption,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Approve a rollout; it is published as soon as nothing else holds it."""
        with asking(url, token_file) as tidemark:
            found = _find(tidemark, rollout)
            result = tidemark.approve(found.job, found.stream, rollout, reason, dry_run=dry_run)
        as_json(result) if json else _show("would approve" if dry_run else "approved", result)


def _register_discard(app: typer.Typer) -> None:
    @app.command("discard")
    def discard(
        rollout: IdArgument,
        *,
        reason: WhyOption,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Turn down a rollout that no job was told of."""
        with asking(url, token_file) as tidemark:
            found = _find(tidemark, rollout)
            result = tidemark.discard(found.job, found.stream, rollout, reason, dry_run=dry_run)
        as_json(result) if json else _show("would discard" if dry_run else "discarded", result)


def _register_rollback(app: typer.Typer) -> None:
    @app.command("rollback")
    def rollback(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: WhyOption,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Tell the job again what it was told before its newest rollout, verified or not."""
        with asking(url, token_file) as tidemark:
            newest = next(tidemark.rollouts(job, stream, states=_TOLD), None)
            if newest is None:
                refused(
                    f"{job}/{stream} has no rollout to go back from; `tidemark rollouts --all` lists them"
                )
            found = tidemark.roll_back(job, stream, newest.id, reason, dry_run=dry_run)
        as_json(found) if json else _show("would roll back" if dry_run else "rolled back", found)


def _register_pause(app: typer.Typer) -> None:
    @app.command("pause")
    def pause(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: WhyOption,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Roll nothing new for a stream; what is under way is still watched."""
        with asking(url, token_file) as tidemark:
            found = tidemark.pause(job, stream, reason, dry_run=dry_run)
        verb = "would pause" if dry_run else "paused"
        as_json(found) if json else typer.echo(f"{verb} {job}/{stream}: nothing new is rolled: {reason}")

    @app.command("resume")
    def resume(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: WhyOption,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Take a pause back."""
        with asking(url, token_file) as tidemark:
            found = tidemark.resume(job, stream, reason, dry_run=dry_run)
        verb = "would resume" if dry_run else "resumed"
        as_json(found) if json else typer.echo(f"{verb} {job}/{stream}: {reason}")


def _states(names: Sequence[str]) -> tuple[State, ...]:
    known: dict[str, State] = {state.lower(): state for state in get_args(State)}
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"--state {name!r} is none; use one of {', '.join(known.values())}")
    return tuple(known[name.lower()] for name in names)


def _find(tidemark: Client, rollout: int) -> RolloutAnswer:
    """Return a rollout by its number alone, which is one of the whole fleet."""
    lists = (tidemark.rollouts(states=states) for states in (tuple(sorted(CANDIDATE)), ()))
    # The newest come first, so that what is older need not be looked through.
    found = next(
        (
            row
            for rows in lists
            for row in takewhile(lambda row: row.id >= rollout, rows)
            if row.id == rollout
        ),
        None,
    )
    if found is None:
        refused(f"there is no rollout {rollout}; `tidemark rollouts --all` lists those there are")
    return found


def _change(row: RolloutAnswer) -> str:
    before, after = (
        bound(found) if found is not None else "own" for found in (row.from_bound_ms, row.to_bound_ms)
    )
    return f"{before} -> {after}"


def _show(verb: str, rollout: RolloutAnswer) -> None:
    when = "then" if verb.startswith("would") else "now"
    typer.echo(
        f"{verb} rollout {rollout.id} of {rollout.job}/{rollout.stream}, {_change(rollout)}: {when} {rollout.state}"
    )
    typer.echo(f"  {rollout.reason}")
