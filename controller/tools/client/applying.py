"""What has to change so that specifications hold, and the changes, one after the other.

A plan is made of what is read; nothing is written before every change was tried by a dry run. Each write names the
version that the plan read, so that what somebody else changed meanwhile is not overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tidemark.controller.base.errors import JoinRefusedError
from tidemark.controller.tools.client.address import join_path, stream_path
from tidemark.controller.tools.client.client import Client
from tidemark.controller.tools.client.errors import ChangedError, RequestRejectedError
from tidemark.controller.tools.client.operations import read_specification, write_specification
from tidemark.controller.tools.documents.documents import Kind, WantedSpec, default_policy

Action = Literal["create", "change", "delete", "keep"]
"""What happens to a specification; keep: nothing, it is as it should be."""

_ORDER: dict[tuple[bool, Kind], int] = {
    # A side of a join needs an SLO and a mode other than Live, and keeps its SLO as long as there is the join.
    (True, "Join"): 0,
    (False, "SLO"): 1,
    (False, "Policy"): 2,
    (False, "Join"): 3,
    (True, "Policy"): 4,
    (True, "SLO"): 5,
}
"""In which order changes are made, by whether something is deleted."""

_DEFAULT = ('"0"', '"0-')
"""How the ETag of a policy begins that nobody set, or that was deleted."""


@dataclass(frozen=True, slots=True)
class SpecChange:
    """What happens to one specification."""

    action: Action
    """What happens."""
    kind: Kind
    """What it happens to."""
    job: str
    """Name of the job."""
    name: str
    """Name of the stream, or of the join."""
    before: Mapping[str, Any] | None
    """The fields as they are; None for what is not set."""
    after: Mapping[str, Any] | None
    """The fields as they will be; None for what is deleted."""
    where: str
    """Where the document stands; empty for what no document has."""
    version: str | None
    """ETag of what is replaced; None for what is not there."""

    @property
    def rank(self) -> int:
        """Its place in the order of changes."""
        return _ORDER[self.action == "delete", self.kind]


@dataclass(frozen=True, slots=True)
class _Current:
    fields: dict[str, Any]
    version: str


def plan(client: Client, wanted: Sequence[WantedSpec], *, prune: bool) -> list[SpecChange]:
    """Return what has to change, in the order in which it can be, and what can stay.

    Args:
        wanted: the specifications that should hold.
        prune: whether to delete the specifications of the named jobs that are not among them. A pause is kept.
    """
    changes = [_change(one, _read(client, one.kind, one.job, one.name)) for one in wanted]
    if prune:
        keys = {one.key for one in wanted}
        for job in sorted({one.job for one in wanted}):
            changes += _unwanted(client, job, keys)
    return sorted(changes, key=lambda change: (change.rank, change.job, change.name))


def check(
    client: Client, changes: Sequence[SpecChange]
) -> Iterator[tuple[SpecChange, dict[str, Any] | None]]:
    """Try every change by a dry run and yield it with the answer, None for what stays.

    Where joins of a job change, what the joins allow is worked out change by change: a dry run sees only what is in
    force. A change that is possible after an earlier one has no answer then.

    Raises:
        RequestRejectedError: when the controller would reject one.
    """
    changing = [change for change in changes if change.action != "keep"]
    joining = sorted({change.job for change in changing if change.kind == "Join"})
    rehearsals = {job: _Rehearsal(in_force(client, job)) for job in joining}
    for change in changes:
        answer = None
        if change.action != "keep":
            rehearsal = rehearsals.get(change.job)
            try:
                answer = carry_out(client, change, dry_run=True)
            except RequestRejectedError as error:
                if rehearsal is None or not rehearsal.allows(change, error):
                    raise
            if rehearsal is not None:
                rehearsal.make(change)
        yield change, answer


def carry_out(
    client: Client, change: SpecChange, *, reason: str | None = None, dry_run: bool = False
) -> dict[str, Any]:
    """Make a change and return the answer.

    Raises:
        ChangedError: when somebody else changed it since it was read; then nothing is written.
    """
    path = _path(change.kind, change.job, change.name)
    try:
        return write_specification(client, path, change.after, change.version, reason=reason, dry_run=dry_run)
    except ChangedError:
        # A change of a join counts as one of its streams' SLOs, although they stay as they are.
        now = _read(client, change.kind, change.job, change.name)
        if now is None or now.fields != change.before:
            raise
        return write_specification(client, path, change.after, now.version, reason=reason, dry_run=dry_run)


def in_force(client: Client, job: str) -> Iterator[tuple[Kind, str, dict[str, Any]]]:
    """Yield the kind, name and fields of each SLO, policy and join of a job; policies that nobody set are left out."""
    yield from ((kind, name, spec.fields) for kind, name, spec in _all_set(client, job))


def _all_set(client: Client, job: str) -> Iterator[tuple[Kind, str, _Current]]:
    for kind, name in _names(client, job):
        spec = _read(client, kind, job, name)
        if spec is not None and not spec.version.startswith(_DEFAULT):
            yield kind, name, spec


def _names(client: Client, job: str) -> Iterator[tuple[Kind, str]]:
    streams = sorted(row.stream for row in client.fleet(job))
    for stream in streams:
        yield "SLO", stream
        yield "Policy", stream
    if streams:
        yield from (("Join", join.join) for join in client.joins(job))


def _unwanted(client: Client, job: str, keys: set[tuple[Kind, str, str]]) -> Iterator[SpecChange]:
    for kind, name, spec in _all_set(client, job):
        if (kind, job, name) in keys:
            continue
        # Whoever paused a stream did so on purpose: it stays paused under the default policy.
        after = {**default_policy(), "paused": True} if spec.fields.get("paused") else None
        if after != spec.fields:
            action: Action = "delete" if after is None else "change"
            yield SpecChange(action, kind, job, name, spec.fields, after, "", spec.version)


def _change(wanted: WantedSpec, current: _Current | None) -> SpecChange:
    before, version = (None, None) if current is None else (current.fields, current.version)
    # A field that this release does not know, and a pause that the document does not name, stay.
    after = {**(before or {}), **wanted.fields}
    action: Action = (
        "keep"
        if after == before
        else "create"
        if version is None or version.startswith(_DEFAULT)
        else "change"
    )
    return SpecChange(action, wanted.kind, wanted.job, wanted.name, before, after, wanted.where, version)


def _read(client: Client, kind: Kind, job: str, name: str) -> _Current | None:
    read = read_specification(client, _path(kind, job, name))
    return None if read is None else _Current(*read)


def _path(kind: Kind, job: str, name: str) -> str:
    if kind == "Join":
        return join_path(job, name)
    return stream_path(job, name, "/slo" if kind == "SLO" else "/policy")


class _Rehearsal:
    """The specifications of one job, as the changes so far will leave them.

    A dry run sees what is in force now, and not what the changes before it will have made of it: an SLO may be set only
    then, and a stream may be in a join only then.

    Args:
        found: kind, name and fields of those in force.
    """

    def __init__(self, specs: Iterable[tuple[Kind, str, Mapping[str, Any]]]) -> None:
        self._fields = {(kind, name): fields for kind, name, fields in specs}
        self._joined_at_first = self._joined()

    def allows(self, change: SpecChange, refusal: RequestRejectedError) -> bool:
        """Return whether the controller refused a dry run only because of what earlier changes will have changed."""
        kind = refusal.kind.rpartition(":")[2]
        if kind == "live-refused":
            return change.name in self._joined_at_first and change.name not in self._joined()
        return kind in {"join-refused", "stream-joined"} or (
            # The SLO of a stream that is not known yet makes it known.
            kind == "stream-not-found" and change.kind == "Join"
        )

    def make(self, change: SpecChange) -> None:
        """Make a change.

        Raises:
            RequestRejectedError: when the joins do not allow it by then.
        """
        problem = self._problem(change)
        if problem is not None:
            error = JoinRefusedError(problem)
            raise RequestRejectedError(error.status, error.type, f"{change.where or change.name}: {problem}")
        if change.after is None:
            self._fields.pop((change.kind, change.name), None)
        else:
            self._fields[change.kind, change.name] = change.after

    def _problem(self, change: SpecChange) -> str | None:
        joined = self._joined()
        join = joined.get(change.name)
        if change.kind == "Policy" and (change.after or {}).get("mode") == "Live" and join is not None:
            return f"stream {change.name!r} is a side of join {join!r}, which mode Live does not steer"
        if change.kind == "SLO" and change.after is None and join is not None:
            return f"stream {change.name!r} is a side of join {join!r} and must keep its SLO"
        if change.kind == "Join" and change.after is not None:
            for stream in change.after["streams"]:
                if ("SLO", stream) not in self._fields:
                    return f"stream {stream!r} of join {change.name!r} has no SLO"
                if self._fields.get(("Policy", stream), {}).get("mode") == "Live":
                    return f"stream {stream!r} of join {change.name!r} is in mode Live, which a join does not steer"
                if joined.get(stream, change.name) != change.name:
                    return f"stream {stream!r} of join {change.name!r} is a side of join {joined[stream]!r} already"
        return None

    def _joined(self) -> dict[str, str]:
        """Return by stream the join that it is a side of."""
        return {
            stream: name
            for (kind, name), fields in self._fields.items()
            if kind == "Join"
            for stream in fields["streams"]
        }
