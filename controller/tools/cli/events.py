"""``tidemark events``: what changed, from what to what, why and by whom."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice, takewhile
from time import time_ns
from typing import TYPE_CHECKING, Any

from tidemark.controller.base.sentences import did_you_mean
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.run import CommandAnswer, check_job
from tidemark.controller.tools.cli.shape import fail_request
from tidemark.controller.tools.cli.show import brief, duration, moment, percent, table

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.rollouts import Event
    from tidemark.controller.tools.client.client import Client

_KINDS_IN = 1_000
"""Among how many events a kind is looked for that has none."""


def events(
    tidemark: Client, job: str | None, stream: str | None, *, kind: str | None, since: str | None, limit: int
) -> CommandAnswer:
    """Show what changed, from what to what, why and by whom, the newest first."""
    since_us = 0 if since is None else time_ns() // 1_000 - duration_of(since, "--since")
    newest = tidemark.events(job, stream, kind=kind)
    rows = list(islice(takewhile(lambda row: row.last_us >= since_us, newest), limit))
    if not rows:
        check_job(tidemark, job)
        if kind is not None:
            _check_kind(tidemark, job, stream, kind)
    columns = ("last", "stream", "what", "change", "by", "why")
    empty = "nothing has happened yet" if since is None else f"nothing in {since}"
    return CommandAnswer({"events": rows}, lambda: table(columns, map(_cells, rows), empty))


def _cells(row: Event) -> tuple[str, ...]:
    return (
        moment(row.last_us),
        "-" if row.job is None else f"{row.job}/{row.stream}",
        row.kind if row.count == 1 else f"{row.kind} ({row.count:,} times)",
        brief(change_text(row.before, row.after)),
        row.by or "-",
        brief(row.reason),
    )


def _check_kind(tidemark: Client, job: str | None, stream: str | None, kind: str) -> None:
    """End the command when there is no event of a kind but are of others."""
    kinds = {row.kind for row in islice(tidemark.events(job, stream), _KINDS_IN)}
    if kinds and kind not in kinds:
        fail_request(f"no event is of kind {kind!r}{did_you_mean(kind, kinds, few=20)}")


_UNSET = object()
_OWN = re.compile(r"((from|to)_)?bound_ms")
"""Fields in which null is the job's own bound."""

_MAX_CHANGES = 6


def change_text(before: str | None, after: str | None) -> str:
    """Return what differs between two values of an event, which are JSON or null."""
    differences = list(_changes(_fields(before), _fields(after)))
    more = f", and {len(differences) - _MAX_CHANGES} more" if len(differences) > _MAX_CHANGES else ""
    return ", ".join(differences[:_MAX_CHANGES]) + more or "-"


def _fields(text: str | None) -> dict[str, Any]:
    value = None if text is None else json.loads(text)
    if isinstance(value, dict):
        return value
    # A value without a name is a bound.
    return {} if text is None else {"bound_ms": value}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for field in dict.fromkeys([*before, *after]):
        was, now = before.get(field, _UNSET), after.get(field, _UNSET)
        if was == now or (was is _UNSET and now is None):
            continue
        name = re.sub(r"_(ms|ppm)$", "", field).replace("_", " ")
        if was is _UNSET:
            yield f"{name} {_value(field, now)}"
        elif now is _UNSET:
            yield f"no {name}"
        else:
            yield f"{name} {_value(field, was)} -> {_value(field, now)}"


def _value(field: str, value: Any) -> str:
    if value is None:
        return "own" if _OWN.fullmatch(field) else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        if field.endswith("_ms"):
            return duration(value)
        return percent(value) if field.endswith("_ppm") else f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
