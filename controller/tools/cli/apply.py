"""``tidemark apply`` and ``tidemark export``: SLOs, policies and joins as documents in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from shlex import quote
from typing import Any

import click

from tidemark.controller.base.sentences import did_you_mean
from tidemark.controller.server.schemas.specs import Consequences
from tidemark.controller.tools.cli.run import CommandAnswer, check_job, connect, open_client, streams_by_name
from tidemark.controller.tools.cli.shape import fail_request, fail_usage
from tidemark.controller.tools.cli.show import say, show_consequences
from tidemark.controller.tools.client.applying import Action, SpecChange, carry_out, check, in_force, plan
from tidemark.controller.tools.client.client import Client
from tidemark.controller.tools.client.errors import ClientError
from tidemark.controller.tools.client.operations import checked
from tidemark.controller.tools.documents.documents import (
    DocumentsInvalidError,
    WantedSpec,
    own_document,
    read_documents,
    without_defaults,
)
from tidemark.controller.tools.documents.openslo import documents_text, openslo_documents
from tidemark.models.base.text import plain, plural

_STANDARD_INPUT = "-"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_DIFFERENT = 1
"""Exit code of ``--exit-code`` when something is not as the documents say."""

_WORDS: dict[Action, tuple[str, str]] = {
    "create": ("would create", "created"),
    "change": ("would change", "changed"),
    "delete": ("would delete", "deleted"),
}
"""What a change is called, in a dry run and afterwards."""


def apply(
    files: Sequence[str],
    *,
    prune: bool,
    validate_only: bool,
    exit_code: bool,
    reason: str | None,
    dry_run: bool,
    url: str,
    token_file: Path | None,
) -> CommandAnswer:
    """Make SLOs, policies and joins as documents in files say, all or none; show what differs."""
    wanted = _wanted(files)
    if validate_only:
        checked_text = f"{plural(len(wanted), 'document')} can be applied"
        return CommandAnswer({"changes": []}, lambda: say(checked_text))
    with connect(url, token_file) as tidemark:
        changes = plan(tidemark, wanted, prune=prune)
        for note in _not_reported(tidemark, changes):
            click.echo(plain(f"note: {note}"), err=True)
        # Every change is tried before the first is made.
        tried = list(check(tidemark, changes))
        done, failure = (tried, None) if dry_run else _make(tidemark, changes, reason)
    differs = dry_run and exit_code and any(change.action != "keep" for change in changes)
    return CommandAnswer(
        {"changes": [_row(change) for change, _ in done]},
        lambda: _show(done, dry_run=dry_run, whole=failure is None),
        failure,
        code=_DIFFERENT if differs else 0,
    )


def export(job: str | None, stream: str | None, *, openslo: bool, url: str, token_file: Path | None) -> None:
    """Print SLOs, policies and joins as documents that `tidemark apply` reads."""
    with open_client(url, token_file) as tidemark:
        jobs = sorted({row.job for row in streams_by_name(tidemark, job)})
        if not jobs:
            check_job(tidemark, job)
        if job is not None and stream is not None:
            tidemark.status(job, stream)  # of one that there is not, the nearest is named
        documents = [
            document for name in jobs for document in _documents(tidemark, name, stream, openslo=openslo)
        ]
    if not documents:
        fail_request("no such stream has an SLO" if openslo else "no such stream has an SLO or a policy")
    click.echo(documents_text(documents), nl=False)


def _documents(
    tidemark: Client, job: str, stream: str | None, *, openslo: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of a job, or of one of its streams; with ``openslo`` only those of OpenSLO."""
    specs = [one for one in in_force(tidemark, job) if stream is None or stream == one[1] != "Join"]
    slos = [(job, name, slo) for kind, name, _ in specs if kind == "SLO" and (slo := tidemark.slo(job, name))]
    yield from openslo_documents(slos)
    if openslo:
        return
    for kind, name, fields in specs:
        # Whether a stream is paused is nobody's intention for good.
        spec = {field: value for field, value in without_defaults(kind, fields).items() if field != "paused"}
        if kind != "SLO" and spec:
            yield own_document(kind, job, name, spec)


def _wanted(files: Sequence[str]) -> list[WantedSpec]:
    """Return what the files say; a mistake in any of them ends the command, with a line for each."""
    try:
        wanted = read_documents([text for name in files for text in _texts(name)])
    except DocumentsInvalidError as error:
        fail_usage(*error.problems)
    if not wanted:
        fail_usage("there is no document of an SLO, a policy or a join in the files")
    for one in wanted:
        for note in one.notes:
            click.echo(plain(f"{one.where}: {note}"), err=True)
    return wanted


def _texts(name: str) -> Iterator[tuple[str, str]]:
    if name == _STANDARD_INPUT:
        yield "standard input", sys.stdin.read()
        return
    place = Path(name)
    # A mounted ConfigMap has links with a leading dot beside its files.
    inside = (path for path in sorted(place.glob("*")) if path.suffix in _SUFFIXES and path.name[0] != ".")
    for path in inside if place.is_dir() else [place]:
        try:
            yield str(path), path.read_text(encoding="utf-8")
        except OSError as error:
            fail_usage(f"{path}: {error.strerror}")
        except UnicodeDecodeError:
            fail_usage(f"{path}: it is not UTF-8")


def _not_reported(tidemark: Client, changes: Iterable[SpecChange]) -> Iterator[str]:
    """Yield what to know of streams that something is set for and that have not reported.

    Files may be applied before the first report; a name that is misspelt there would wait for it for ever.
    """
    jobs: dict[str, set[str]] = {}
    wanted = {(one.job, one.name): one for one in changes if one.kind != "Join" and one.action == "create"}
    for (job, stream), change in wanted.items():
        if job not in jobs:
            jobs[job] = {row.stream for row in tidemark.fleet(job) if row.registered_us is not None}
        if stream not in jobs[job]:
            meant = did_you_mean(stream, jobs[job])
            yield f"{job}/{stream} has not reported; what is set waits for its first report{meant} ({change.where})"


def _make(
    tidemark: Client, changes: Sequence[SpecChange], reason: str | None
) -> tuple[list[tuple[SpecChange, dict[str, Any] | None]], str | None]:
    """Make the changes; return those that are made, each with the answer, and why not all are."""
    made: list[tuple[SpecChange, dict[str, Any] | None]] = []
    for change in changes:
        why = reason or f"tidemark apply{f': {change.where}' if change.where else ' --prune'}"
        try:
            answer = None if change.action == "keep" else carry_out(tidemark, change, reason=why)
        except ClientError as error:
            number, total = (
                sum(one.action != "keep" for one in some) for some in ([one for one, _ in made], changes)
            )
            return made, (
                f"{change.kind} {change.job}/{change.name}: {error}; {number} of {plural(total, 'change')} were made, "
                "this and what follows were not; apply the files again"
            )
        made.append((change, answer))
    return made, None


def _show(done: Iterable[tuple[SpecChange, dict[str, Any] | None]], *, dry_run: bool, whole: bool) -> None:
    counts = dict.fromkeys(_WORDS, 0)
    jobs = set[str]()
    kept = 0
    for change, answer in done:
        if change.action == "keep":
            kept += 1
            continue
        counts[change.action] += 1
        jobs.add(change.job)
        verb = _WORDS[change.action][0 if dry_run else 1]
        where = f" ({change.where})" if change.where else ""
        say(f"{verb} {change.kind} {change.job}/{change.name}{where}")
        for line in _difference(change):
            say(f"  {line}")
        if answer is not None and change.kind != "Join":
            show_consequences(checked(Consequences, answer))
    if not whole:
        return
    totals = [f"{count} {_WORDS[action][0 if dry_run else 1]}" for action, count in counts.items() if count]
    say(", ".join([*totals, f"{kept} unchanged"]))
    if jobs and not dry_run:
        say(f"next: tidemark {f'doctor {quote(jobs.pop())}' if len(jobs) == 1 else 'status'}")


def _difference(change: SpecChange) -> Iterator[str]:
    """Yield what differs, field by field: as it is with a minus, as it will be with a plus."""

    def shown(fields: Mapping[str, Any] | None) -> Mapping[str, Any]:
        # What appears or vanishes is shown without its defaults.
        whole = change.before is not None and change.after is not None
        return (fields or {}) if whole else without_defaults(change.kind, fields or {})

    before, after = shown(change.before), shown(change.after)
    for field in dict.fromkeys([*before, *after]):
        if before.get(field) != after.get(field):
            for sign, fields in (("-", before), ("+", after)):
                if field in fields:
                    yield f"{sign} {field}: {dumps(fields[field], ensure_ascii=False)}"


def _row(change: SpecChange) -> dict[str, Any]:
    """Return a change as JSON has it."""
    fields = ("action", "kind", "job", "name", "before", "after", "where")
    return {field: getattr(change, field) for field in fields}
