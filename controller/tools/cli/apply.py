"""``tidemark apply`` and ``tidemark export``: SLOs, policies and joins as documents in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from tidemark.controller.base.sentences import did_you_mean
from tidemark.controller.server.schemas.specs import Consequences
from tidemark.controller.tools.cli.remote import (
    Call,
    DryRunOption,
    ReasonOption,
    SomeJobArgument,
    SomeStreamArgument,
    TokenFileOption,
    UrlOption,
    calls_controller,
    check_job,
    open_client,
    streams_by_name,
)
from tidemark.controller.tools.cli.show import fail_request, fail_usage, say, show_consequences
from tidemark.controller.tools.client.address import DEFAULT_URL
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


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""

    @app.command("apply")
    @calls_controller
    def apply(
        *,
        files: Annotated[
            list[str],
            typer.Option(
                "--filename",
                "-f",
                metavar="FILE|DIR",
                help="File of YAML documents, folder of such files, or - for standard input; may be repeated.",
            ),
        ],
        prune: Annotated[
            bool,
            typer.Option(
                "--prune",
                help="Also delete SLOs, policies and joins of the jobs that the documents name which no document has.",
            ),
        ] = False,
        validate_only: Annotated[
            bool, typer.Option("--validate-only", help="Only check the files; no controller is called.")
        ] = False,
        exit_code: Annotated[
            bool,
            typer.Option("--exit-code", help="With --dry-run: exit with 1 when something would change."),
        ] = False,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Make SLOs, policies and joins as documents in files say, all or none; show what differs.

        An SLO is a document of OpenSLO, a policy or a join one of tidemark/v1; `tidemark export` writes them. Every
        file is checked, and every change tried on the controller, before the first is made.
        """
        wanted = _wanted(files)
        if validate_only:
            return say(f"{plural(len(wanted), 'document')} can be applied")
        with call.open() as tidemark:
            changes = plan(tidemark, wanted, prune=prune)
            for note in _not_reported(tidemark, changes):
                typer.echo(plain(f"note: {note}"), err=True)
            # Every change is tried before the first is made.
            tried = list(check(tidemark, changes))
            done = iter(tried) if dry_run else _made(tidemark, changes, reason)
            if call.structured:
                call.write([_row(change) for change, _ in done], "changes")
            else:
                _show(done, dry_run=dry_run)
        if dry_run and exit_code and any(change.action != "keep" for change in changes):
            raise typer.Exit(_DIFFERENT)
        return None

    @app.command("export")
    def export(
        job: SomeJobArgument = None,
        stream: SomeStreamArgument = None,
        *,
        openslo: Annotated[
            bool,
            typer.Option("--openslo", help="Only SLOs: documents of OpenSLO v1, which other tools read too."),
        ] = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Print SLOs, policies and joins as documents that `tidemark apply` reads.

        An SLO is a document of OpenSLO, which refers to the metrics that Prometheus scrapes from the controller.
        """
        with open_client(url, token_file) as tidemark:
            jobs = sorted({row.job for row in streams_by_name(tidemark, job)})
            if not jobs:
                check_job(tidemark, job)
            if job is not None and stream is not None:
                tidemark.status(job, stream)  # of one that there is not, the nearest is named
            found = [
                document for each in jobs for document in _documents(tidemark, each, stream, openslo=openslo)
            ]
        if not found:
            fail_request("no such stream has an SLO" if openslo else "no such stream has an SLO or a policy")
        typer.echo(documents_text(found), nl=False)


def _documents(
    tidemark: Client, job: str, stream: str | None, *, openslo: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of a job, or of one of its streams; with ``openslo`` only those of OpenSLO."""
    found = [one for one in in_force(tidemark, job) if stream is None or stream == one[1] != "Join"]
    slos = [(job, name, slo) for kind, name, _ in found if kind == "SLO" and (slo := tidemark.slo(job, name))]
    yield from openslo_documents(slos)
    if openslo:
        return
    for kind, name, fields in found:
        # Whether a stream is paused is nobody's intention for good.
        given = {field: value for field, value in without_defaults(kind, fields).items() if field != "paused"}
        if kind != "SLO" and given:
            yield own_document(kind, job, name, given)


def _wanted(files: Sequence[str]) -> list[WantedSpec]:
    """Return what the files say; a mistake in any of them ends the command, with a line for each."""
    try:
        found = read_documents([text for name in files for text in _texts(name)])
    except DocumentsInvalidError as error:
        fail_usage(*error.problems)
    if not found:
        fail_usage("there is no document of an SLO, a policy or a join in the files")
    for one in found:
        for note in one.notes:
            typer.echo(plain(f"{one.where}: {note}"), err=True)
    return found


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


def _made(
    tidemark: Client, changes: Sequence[SpecChange], reason: str | None
) -> Iterator[tuple[SpecChange, dict[str, Any] | None]]:
    """Make the changes, and yield each with the answer; a failure names what is not made."""
    due = sum(change.action != "keep" for change in changes)
    made = 0
    for change in changes:
        if change.action == "keep":
            yield change, None
            continue
        why = reason or f"tidemark apply{f': {change.where}' if change.where else ' --prune'}"
        try:
            answer = carry_out(tidemark, change, reason=why)
        except ClientError as error:
            fail_request(
                f"{change.kind} {change.job}/{change.name}: {error}; {made} of {plural(due, 'change')} were made, "
                "this and what follows were not; apply the files again"
            )
        made += 1
        yield change, answer


def _show(done: Iterable[tuple[SpecChange, dict[str, Any] | None]], *, dry_run: bool) -> None:
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
    said = [f"{count} {_WORDS[action][0 if dry_run else 1]}" for action, count in counts.items() if count]
    say(", ".join([*said, f"{kept} unchanged"]))
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
