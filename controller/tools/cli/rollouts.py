"""``tidemark rollouts``, ``approve``, ``discard``, ``rollback``, ``lift``, ``pause`` and ``resume``: by hand."""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, get_args

from tidemark.controller.tools.cli.run import CommandAnswer, check_job
from tidemark.controller.tools.cli.shape import fail_request
from tidemark.controller.tools.cli.show import approval_command, done, duration, moment, say, table
from tidemark.controller.tools.cli.status import why_text
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.rollout.states import OPEN, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidemark.controller.server.schemas.fleet import Narrowing
    from tidemark.controller.server.schemas.rollouts import RolloutAnswer
    from tidemark.controller.server.schemas.streams import StreamStatus
    from tidemark.controller.tools.client.client import Client

_PUBLISHED: tuple[State, ...] = ("Published", "Acknowledged", "Effective", "Verified")
"""States in which the bound of a rollout is published, so that it can be rolled back."""


def rollouts(
    tidemark: Client,
    job: str | None,
    stream: str | None,
    *,
    state: Sequence[str],
    every: bool,
    vetoed: bool,
    limit: int,
) -> CommandAnswer:
    """List rollouts, the newest first; for a stream also what is recommended, and why."""
    states = _states(state) if state else () if every or vetoed else tuple(sorted(OPEN))
    listed = list(islice(tidemark.rollouts(job, stream, states=states, vetoed=vetoed), limit))
    if not listed:
        check_job(tidemark, job)
    status = None if job is None or stream is None else tidemark.status(job, stream)

    def show() -> None:
        if status is not None:
            _show_recommended(status)
        columns = ("id", "stream", "state", "change", "since", "why")
        empty = "there are no such rollouts" if state or every or vetoed else "no rollout is open"
        table(columns, map(_row, listed), empty)

    recommended = {} if status is None else {"recommended": status.recommended}
    return CommandAnswer({**recommended, "rollouts": listed}, show)


def _row(row: RolloutAnswer) -> tuple[str, ...]:
    next_step = f"; {approval_command(row.id)}" if row.state == "AwaitingApproval" else ""
    return (
        str(row.id),
        f"{row.job}/{row.stream}",
        row.state,
        _change(row),
        moment(row.changed_us),
        f"{row.reason}{next_step}",
    )


def _show_recommended(status: StreamStatus) -> None:
    names = f"{quote(status.job)} {quote(status.stream)}"
    say(f"{status.job}/{status.stream}: {duration(status.in_use_bound_ms)} in use; {status.summary}")
    if status.slo is None:
        say(f"  next: tidemark slo set {names} --target 0.99")
    if status.recommended is None:
        return
    say(f"  why: {why_text(status)}; `tidemark why {names} --all` has each step")
    if status.transition is not None:
        say(f"  expected effect: {status.transition.text}")


def approve(
    tidemark: Client, rollout: int | None, *, every: bool, yes: bool, reason: str, dry_run: bool
) -> CommandAnswer:
    """Approve a rollout; it is published as soon as no gate holds it."""
    if every == (rollout is not None):
        raise ValueError("give the number of a ROLLOUT, or --all for those that await approval")
    if rollout is None:
        return _approve_all(tidemark, reason, dry_run or not yes)
    return _act(tidemark, rollout, tidemark.approve, ("approve", "approved"), reason=reason, dry_run=dry_run)


def _approve_all(tidemark: Client, reason: str, dry_run: bool) -> CommandAnswer:
    """Approve all rollouts that await it, the oldest first; one that is refused does not keep the others."""
    waiting = sorted(tidemark.rollouts(states=("AwaitingApproval",)), key=lambda row: row.id)
    approved, refused = [], []
    for row in waiting:
        try:
            approved.append(tidemark.approve(row.job, row.stream, row.id, reason, dry_run))
        except RequestRejectedError as error:
            refused.append(f"rollout {row.id} of {row.job}/{row.stream}: {error}")
    limit = tidemark.narrowing()

    def show() -> None:
        rows = [
            (str(row.id), f"{row.job}/{row.stream}", row.state, _change(row), row.reason) for row in approved
        ]
        columns = ("id", "stream", "then" if dry_run else "now", "change", "why")
        table(columns, rows, "no rollout awaits approval" if not waiting else "none can be approved")
        if approved:
            many = plural(len(approved), "rollout")
            say(f"would approve {many}; --yes approves" if dry_run else f"approved {many}")
        if dry_run:
            say_turns(approved, limit)

    return CommandAnswer({"rollouts": approved}, show, "; ".join(refused) or None)


def say_turns(tried: Sequence[RolloutAnswer], limit: Narrowing) -> None:
    """Say how many wait for the fleet's limit: in a dry run each was tried as if it were the only one."""
    narrow = [
        row for row in tried if row.state == "Published" and row.direction == "Narrow" and not row.first
    ]
    waits = len(narrow) - max(limit.max_streams - limit.streams, 0)
    if waits > 0:
        most = plural(limit.max_streams, "stream")
        say(f"{waits} of them would wait: at most {most} of the fleet may be narrowed at once")


def discard(tidemark: Client, rollout: int, *, reason: str, dry_run: bool) -> CommandAnswer:
    """Discard a rollout that is not published yet."""
    return _act(tidemark, rollout, tidemark.discard, ("discard", "discarded"), reason=reason, dry_run=dry_run)


def lift(tidemark: Client, rollout: int, *, reason: str, dry_run: bool) -> CommandAnswer:
    """Lift the veto on a rollout."""
    words = ("lift the veto on", "lifted the veto on")
    return _act(tidemark, rollout, tidemark.lift, words, reason=reason, dry_run=dry_run)


def rollback(tidemark: Client, job: str, stream: str, *, reason: str, dry_run: bool) -> CommandAnswer:
    """Publish again the bound from before the newest rollout of a stream."""
    newest = next(tidemark.rollouts(job, stream, states=_PUBLISHED), None)
    if newest is None:
        fail_request(f"{job}/{stream} has no rollout to roll back; `tidemark rollouts --all` lists them")
    after = tidemark.roll_back(job, stream, newest.id, reason, dry_run)
    return CommandAnswer(after, lambda: _show(done("roll back", "rolled back", dry_run=dry_run), after))


def pause(tidemark: Client, job: str, stream: str, *, reason: str, dry_run: bool) -> CommandAnswer:
    """Start no new rollout for a stream."""
    policy = tidemark.pause(job, stream, reason, dry_run)
    verb = done("pause", "paused", dry_run=dry_run)
    return CommandAnswer(policy, lambda: say(f"{verb} {job}/{stream}: no new rollout starts: {reason}"))


def resume(tidemark: Client, job: str, stream: str, *, reason: str, dry_run: bool) -> CommandAnswer:
    """End a pause."""
    policy = tidemark.resume(job, stream, reason, dry_run)
    verb = done("resume", "resumed", dry_run=dry_run)
    return CommandAnswer(policy, lambda: say(f"{verb} {job}/{stream}: {reason}"))


def _act(
    tidemark: Client,
    rollout: int,
    act: Callable[..., RolloutAnswer],
    words: tuple[str, str],
    *,
    reason: str,
    dry_run: bool,
) -> CommandAnswer:
    """Do something to a rollout by its number, which is unique in the fleet."""
    before = next(tidemark.rollouts(rollout_id=rollout), None)
    if before is None:
        fail_request(f"there is no rollout {rollout}; `tidemark rollouts --all` lists all")
    after = act(before.job, before.stream, rollout, reason, dry_run)
    return CommandAnswer(after, lambda: _show(done(*words, dry_run=dry_run), after))


def _states(names: Sequence[str]) -> tuple[State, ...]:
    states: dict[str, State] = {state.lower(): state for state in get_args(State)}
    for name in names:
        if name.lower() not in states:
            raise ValueError(f"--state {name!r} is not a state; use one of {', '.join(states.values())}")
    return tuple(states[name.lower()] for name in names)


def _change(row: RolloutAnswer) -> str:
    before, after = ("own" if ms is None else duration(ms) for ms in (row.from_bound_ms, row.to_bound_ms))
    return f"{before} -> {after}"


def _show(verb: str, row: RolloutAnswer) -> None:
    when = "then" if verb.startswith("would") else "now"
    say(f"{verb} rollout {row.id} of {row.job}/{row.stream}, {_change(row)}: {when} {row.state}")
    say(f"  {row.reason}")
    if verb == "approved":
        say(f"  next: tidemark doctor {quote(row.job)} {quote(row.stream)}")
