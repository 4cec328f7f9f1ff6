"""``tidemark rollouts``, ``approve``, ``discard``, ``rollback``, ``lift``, ``pause`` and ``resume``: by hand."""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from tidemark.controller.tools.cli.ask import NeededReasonOption
from tidemark.controller.tools.cli.remote import (
    Call,
    DryRunOption,
    JobArgument,
    SomeJobArgument,
    SomeStreamArgument,
    StreamArgument,
    calls_controller,
)
from tidemark.controller.tools.cli.show import (
    approval_command,
    bound,
    fail_request,
    moment,
    say,
    table,
)
from tidemark.controller.tools.cli.why import why_text
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.rollout.states import OPEN, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidemark.controller.server.schemas.fleet import Narrowing
    from tidemark.controller.server.schemas.rollouts import RolloutAnswer
    from tidemark.controller.server.schemas.streams import StreamStatus
    from tidemark.controller.tools.client.client import Client

_IdArgument = Annotated[
    int, typer.Argument(metavar="ROLLOUT", min=1, help="Number of the rollout; `tidemark rollouts` shows it.")
]

_PUBLISHED: tuple[State, ...] = ("Published", "Acknowledged", "Effective", "Verified")
"""States in which the bound of a rollout is published, so that it can be rolled back."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    _register_list(app)
    _register_approve(app)
    _register_act(app, "discard", "discarded", "Discard a rollout that is not published yet.")
    _register_rollback(app)
    _register_act(
        app,
        "lift",
        "lifted the veto on",
        "Lift the veto on a rollout that was discarded or rolled back by a person.",
    )
    _register_pause(app)


def _register_list(app: typer.Typer) -> None:
    @app.command("rollouts")
    @calls_controller(lists=True, watch=True)
    def rollouts(
        job: SomeJobArgument = None,
        stream: SomeStreamArgument = None,
        *,
        state: Annotated[
            list[str] | None,
            typer.Option(help="Only rollouts in this state; may be repeated. Default: those that are open."),
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="Include rollouts that have ended.")] = False,
        vetoed: Annotated[
            bool,
            typer.Option("--vetoed", help="Only those that a person vetoed; `tidemark lift` ends a veto."),
        ] = False,
        limit: Annotated[int, typer.Option(min=1, help="Maximum number of rollouts.")] = 100,
        call: Call,
    ) -> None:
        """List rollouts, the newest first; for a stream also what is recommended, and why.

        A rollout begins with its recommendation. Those that are open are listed, those in some states, or all. For one
        stream it shows what decides, and the expected effect.
        """
        with call.open() as tidemark:
            states = _states(state) if state else () if every or vetoed else tuple(sorted(OPEN))
            found = list(islice(tidemark.rollouts(job, stream, states=states, vetoed=vetoed), limit))
            if not found:
                call.check_job(tidemark)
            status = None if job is None or stream is None else tidemark.status(job, stream)
        if call.structured:
            recommended = {} if status is None else {"recommended": status.recommended}
            return call.write({**recommended, "rollouts": found})
        if call.names(row.id for row in found):
            return None
        if status is not None:
            _show_recommended(status)
        rows = [
            (
                str(row.id),
                f"{row.job}/{row.stream}",
                row.state,
                _change(row),
                moment(row.changed_us),
                f"{row.reason}; {approval_command(row.id)}"
                if row.state == "AwaitingApproval"
                else row.reason,
                *(_more(row) if call.wide else ()),
            )
            for row in found
        ]
        columns = ("id", "stream", "state", "change", "since", "why")
        return table(
            (*columns, *(_MORE if call.wide else ())),
            rows,
            "there are no such rollouts" if state or every or vetoed else "no rollout is open",
        )


_MORE = ("mode", "cause", "proposed", "published", "generation", "rows at risk")
"""Further columns of the wide table."""


def _more(row: RolloutAnswer) -> tuple[str, ...]:
    return (
        row.mode,
        row.cause,
        moment(row.created_us),
        moment(row.published_us),
        "-" if row.generation is None else str(row.generation),
        f"{row.judged.at_risk_rows:,} of {row.judged.needed_rows:,}",
    )


def _show_recommended(status: StreamStatus) -> None:
    say(f"{status.job}/{status.stream}: {bound(status.in_use_bound_ms)} in use; {status.summary}")
    if status.slo is None:
        say(f"  next: tidemark slo set {quote(status.job)} {quote(status.stream)} --target 0.99")
    if status.recommended is None:
        return
    names = f"{quote(status.job)} {quote(status.stream)}"
    say(f"  why: {why_text(status)}; `tidemark why {names} --all` has each step")
    if status.transition is not None:
        say(f"  expected effect: {status.transition.text}")


def _register_approve(app: typer.Typer) -> None:
    @app.command("approve")
    @calls_controller
    def approve(
        rollout: Annotated[
            int | None,
            typer.Argument(
                metavar="ROLLOUT", min=1, help="Number of the rollout; `tidemark rollouts` shows it."
            ),
        ] = None,
        *,
        every: Annotated[
            bool,
            typer.Option("--all", help="All rollouts that await approval: a dry run unless --yes is given."),
        ] = False,
        yes: Annotated[bool, typer.Option("--yes", help="With --all: approve them.")] = False,
        reason: NeededReasonOption = "",
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Approve a rollout; it is published as soon as no gate holds it.

        An approval opens no other gate: of many that are approved together, those beyond the fleet's limits wait for
        their turn.
        """
        with call.open() as tidemark:
            if every == (rollout is not None):
                raise ValueError("give the number of a ROLLOUT, or --all for those that await approval")
            if rollout is None:
                return _approve_all(tidemark, reason, dry_run=dry_run or not yes, call=call)
            found = _find(tidemark, rollout)
            result = tidemark.approve(found.job, found.stream, rollout, reason, dry_run=dry_run)
        return (
            call.write(result)
            if call.structured
            else _show("would approve" if dry_run else "approved", result)
        )


def _approve_all(tidemark: Client, reason: str, *, dry_run: bool, call: Call) -> None:
    """Approve all rollouts that await it, the oldest first; one that is refused does not keep the others."""
    waiting = sorted(tidemark.rollouts(states=("AwaitingApproval",)), key=lambda row: row.id)
    done, refused = [], []
    for row in waiting:
        try:
            done.append(tidemark.approve(row.job, row.stream, row.id, reason, dry_run=dry_run))
        except RequestRejectedError as error:
            refused.append(f"rollout {row.id} of {row.job}/{row.stream}: {error}")
    if call.structured:
        call.write(done, "rollouts")
    else:
        rows = [(str(row.id), f"{row.job}/{row.stream}", row.state, _change(row), row.reason) for row in done]
        columns = ("id", "stream", "then" if dry_run else "now", "change", "why")
        table(columns, rows, "no rollout awaits approval" if not waiting else "none can be approved")
        if done:
            many = plural(len(done), "rollout")
            say(f"would approve {many}; --yes approves" if dry_run else f"approved {many}")
        if dry_run:
            say_turns(done, tidemark.narrowing())
    if refused:
        fail_request("; ".join(refused))


def say_turns(tried: Sequence[RolloutAnswer], limit: Narrowing) -> None:
    """Say how many wait for the fleet's limit: in a dry run each was tried as if it were the only one."""
    narrow = [
        row for row in tried if row.state == "Published" and row.direction == "Narrow" and not row.first
    ]
    waits = len(narrow) - max(limit.max_streams - limit.streams, 0)
    if waits > 0:
        most = plural(limit.max_streams, "stream")
        say(f"{waits} of them would wait: at most {most} of the fleet may be narrowed at once")


def _register_act(app: typer.Typer, act: Literal["discard", "lift"], done: str, text: str) -> None:
    @app.command(act, help=text)
    @calls_controller
    def act_on(
        rollout: _IdArgument, *, reason: NeededReasonOption = "", dry_run: DryRunOption = False, call: Call
    ) -> None:
        with call.open() as tidemark:
            found = _find(tidemark, rollout)
            do = {"discard": tidemark.discard, "lift": tidemark.lift}[act]
            result = do(found.job, found.stream, rollout, reason, dry_run=dry_run)
        would = "would lift the veto on" if act == "lift" else f"would {act}"
        call.write(result) if call.structured else _show(would if dry_run else done, result)


def _register_rollback(app: typer.Typer) -> None:
    @app.command("rollback")
    @calls_controller
    def rollback(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: NeededReasonOption = "",
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Publish again the bound from before the newest rollout of a stream.

        The rollout may be verified already.
        """
        with call.open() as tidemark:
            newest = next(tidemark.rollouts(job, stream, states=_PUBLISHED), None)
            if newest is None:
                fail_request(
                    f"{job}/{stream} has no rollout to roll back; `tidemark rollouts --all` lists them"
                )
            found = tidemark.roll_back(job, stream, newest.id, reason, dry_run=dry_run)
        call.write(found) if call.structured else _show(
            "would roll back" if dry_run else "rolled back", found
        )


def _register_pause(app: typer.Typer) -> None:
    @app.command("pause")
    @calls_controller
    def pause(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: NeededReasonOption = "",
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Start no new rollout for a stream; the one under way is still watched."""
        with call.open() as tidemark:
            found = tidemark.pause(job, stream, reason, dry_run=dry_run)
        verb = "would pause" if dry_run else "paused"
        call.write(found) if call.structured else say(
            f"{verb} {job}/{stream}: no new rollout starts: {reason}"
        )

    @app.command("resume")
    @calls_controller
    def resume(
        job: JobArgument,
        stream: StreamArgument,
        *,
        reason: NeededReasonOption = "",
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """End a pause."""
        with call.open() as tidemark:
            found = tidemark.resume(job, stream, reason, dry_run=dry_run)
        verb = "would resume" if dry_run else "resumed"
        call.write(found) if call.structured else say(f"{verb} {job}/{stream}: {reason}")


def _states(names: Sequence[str]) -> tuple[State, ...]:
    known: dict[str, State] = {state.lower(): state for state in get_args(State)}
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"--state {name!r} is not a state; use one of {', '.join(known.values())}")
    return tuple(known[name.lower()] for name in names)


def _find(tidemark: Client, rollout: int) -> RolloutAnswer:
    """Return a rollout by its number, which is unique in the fleet."""
    found = next(tidemark.rollouts(rollout_id=rollout), None)
    if found is None:
        fail_request(f"there is no rollout {rollout}; `tidemark rollouts --all` lists all")
    return found


def _change(row: RolloutAnswer) -> str:
    before, after = (
        bound(found) if found is not None else "own" for found in (row.from_bound_ms, row.to_bound_ms)
    )
    return f"{before} -> {after}"


def _show(verb: str, rollout: RolloutAnswer) -> None:
    when = "then" if verb.startswith("would") else "now"
    say(
        f"{verb} rollout {rollout.id} of {rollout.job}/{rollout.stream}, {_change(rollout)}: {when} {rollout.state}"
    )
    say(f"  {rollout.reason}")
    if verb == "approved":
        say(f"  next: tidemark doctor {quote(rollout.job)} {quote(rollout.stream)}")
