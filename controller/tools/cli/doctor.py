"""``tidemark doctor``: what a job still needs until it runs with the recommended bound; which jobs are watched."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidemark.controller.tools.cli.checkup import Check, Place, checkup
from tidemark.controller.tools.cli.managed_spark import managed_here
from tidemark.controller.tools.cli.run import CommandAnswer, check_job, connect, streams_by_name
from tidemark.controller.tools.cli.shape import fail_usage
from tidemark.controller.tools.cli.show import moment, say
from tidemark.controller.tools.client.address import TOKEN_VARIABLE
from tidemark.controller.tools.client.errors import (
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
)
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidemark.controller.server.schemas.fleet import FleetStream
    from tidemark.controller.tools.client.client import Client

_SOMETHING_MISSING = 1
"""Exit code when the controller answers and something is missing."""


def doctor(
    job: str | None,
    stream: str | None,
    *,
    conf: Path | None,
    strict: bool,
    url: str,
    token_file: Path | None,
) -> CommandAnswer:
    """Check a job, all jobs or a conf: what is fine, what is missing, and what to do next."""
    here = {} if conf is None else _defaults(conf)
    findings = _of_controller(url, token_file, job, stream) if conf is None else _of_conf(here)
    findings[:0] = [(findings[0][0], check) for check in managed_here(here)]
    fields = ("job", "stream", "fine", "level", "text", "next")
    rows = [(where.job, where.stream, one.fine, one.level, one.text, one.step) for where, one in findings]
    failing = {"missing", "warning"} if strict else {"missing"}
    return CommandAnswer(
        {"findings": [dict(zip(fields, row, strict=True)) for row in rows]},
        lambda: _show(findings),
        code=_SOMETHING_MISSING if any(check.level in failing for _, check in findings) else 0,
    )


class _Where(NamedTuple):
    """What a check is about."""

    job: str | None = None
    """None: the controller, or a conf."""
    stream: str | None = None
    """None: the job."""


_Findings = list[tuple[_Where, Check]]


def _defaults(file: Path) -> dict[str, str]:
    from tidemark.controller.tools.cli.fleet_conf import read_defaults  # noqa: PLC0415 - when it is asked for

    return read_defaults(file)


def _of_conf(conf: Mapping[str, str]) -> _Findings:
    from tidemark.controller.tools.cli.fleet_conf import check_conf  # noqa: PLC0415 - as above

    return [(_Where(), check) for check in check_conf(conf)]


def _of_controller(url: str, token_file: Path | None, job: str | None, stream: str | None) -> _Findings:
    try:
        with connect(url, token_file) as tidemark:
            tidemark.ready()
            answers = (_Where(job), Check(f"the controller at {tidemark.url} answers"))
            return [answers, *(_jobs(tidemark) if job is None else _examine(tidemark, job, stream))]
    except TokenRejectedError as error:
        fail_usage(f"{error}; next: name a token of this controller by --token-file or {TOKEN_VARIABLE}")
    except ControllerUnusableError as error:
        # Where a driver cannot reach its controller is where one wants to know what the place allows.
        place = "".join(f"; {check.text}" for check in managed_here({}))
        fail_usage(f"{error}; next: {_reach(str(error))}{place}")
    except RequestRejectedError as error:
        fail_usage(str(error))


def _reach(error: str) -> str:
    """Return what to do about a controller that cannot be used."""
    if "no answer within" in error:
        # What a network policy keeps out is not refused: it waits.
        return "in a pod of another namespace, let that namespace in by the chart's networkPolicy.from"
    return "`tidemark serve`, or name its address by --url"


def _jobs(tidemark: Client) -> _Findings:
    """Return of each job that the controller knows whether it is watched."""
    jobs: dict[str, list[FleetStream]] = {}
    for row in tidemark.fleet():
        jobs.setdefault(row.job, []).append(row)
    if not jobs:
        step = "tidemark doctor --conf spark-defaults.conf, where a driver runs, says what keeps its reports away"
        return [(_Where(), Check("no job has reported yet", step, needed=True))]
    total = Check(f"it knows {plural(len(jobs), 'job')}; jobs that never reported are not among them")
    return [
        (_Where(), total),
        *((_Where(job), _watched(Place.of(tidemark, job, ""), jobs[job])) for job in sorted(jobs)),
    ]


def _watched(place: Place, streams: Sequence[FleetStream]) -> Check:
    """Return whether a job is watched, and if not, why."""
    every = plural(len(streams), "stream")
    waiting = [row.stream for row in streams if row.registered_us is None]
    if waiting:
        text = f"not watched: of {every} no report has come of {', '.join(waiting)}"
        return Check(text, place.first_start(), needed=True)
    for kind, why in (
        ("OperatorContradicted", "rows are not judged"),
        ("NoRecentReport", "reports have ended"),
    ):
        names = [row.stream for row in streams if kind in row.alerts]
        if names:
            step = place.tidemark("doctor", place.job)
            return Check(f"{why}: {', '.join(names)}, of {every}", step, kind == "OperatorContradicted")
    newest_us = max((row.last_batch_us for row in streams if row.last_batch_us is not None), default=None)
    return Check(f"watched: {every}, the newest batch of {moment(newest_us)}")


def _examine(tidemark: Client, job: str, stream: str | None) -> _Findings:
    """Return the checks of a job's streams."""
    names = [row.stream for row in streams_by_name(tidemark, job)] if stream is None else [stream]
    if not names:
        start = Place.of(tidemark, job, "").first_start()
        try:
            check_job(tidemark, job)
        except RequestRejectedError as error:
            return [(_Where(job), Check(str(error), start, needed=True))]
    return [
        (_Where(job, name), check)
        for name in names
        for check in _check_stream(tidemark, Place.of(tidemark, job, name))
    ]


def _check_stream(tidemark: Client, place: Place) -> list[Check]:
    try:
        # Unchecked, so that conditions of a newer controller are shown too.
        status = tidemark.status_unchecked(place.job, place.stream)
    except RequestRejectedError as error:
        if not error.kind.endswith(":stream-not-found"):
            raise
        return [Check("nothing is known of it: no report has come", place.first_start(), needed=True)]
    return checkup(status, place)


def _show(findings: Iterable[tuple[_Where, Check]]) -> None:
    before = None
    for where, checks in groupby(findings, key=itemgetter(0)):
        if where.stream is not None:
            say(f"{where.job}/{where.stream}")
        elif before is not None and where.job is not None:
            say(where.job)
        before = where
        for _, check in checks:
            say(f"  {check.level:<7}  {check.text}")
            if check.step is not None:
                say(f"           next: {check.step}")
