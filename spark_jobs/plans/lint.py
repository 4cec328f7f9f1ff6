"""``tidemark lint``: check the joins and stateful operators of a job's streams before it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table

from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.downstream import OperatorDelay
from tidemark.models.specs.findings import (
    Finding,
    JoinedQuery,
    JoinInput,
    judge_joins,
    refused_start,
    worst_first,
)
from tidemark.models.specs.run_end import last_windows
from tidemark.models.specs.state_findings import judge_state
from tidemark.spark_jobs.core.connections import listener_of
from tidemark.spark_jobs.core.judging import run_end_with
from tidemark.spark_jobs.plans.downstream import read_operators
from tidemark.spark_jobs.plans.job import JobNotCheckedError, Wanted, queries_of
from tidemark.spark_jobs.plans.joins import read_joins, refusal
from tidemark.spark_jobs.plans.start_check import check_own_times, never_emits
from tidemark.spark_jobs.spark.java import JavaNotFound, ensure_java
from tidemark.spark_jobs.spark.query_plan import read_plan


@dataclass(frozen=True, slots=True)
class _Checked:
    """A query of a job, with what is found."""

    name: str | None
    output_mode: str
    joins: JoinedQuery | None
    findings: list[Finding]
    operators: list[OperatorDelay] = field(default_factory=list)


def check(
    job: str, arguments: Sequence[str], bound_ms: int | None, write: Callable[[object], None] | None
) -> int:
    """Check a job and print what is found.

    Args:
        job: path of a Python file, or ``FILE:FUNCTION``.
        arguments: the file's own.
        bound_ms: a bound of all inputs to show the effect of, in milliseconds; None for those in the plan.
        write: prints a document, for programs; None prints for people.

    Returns:
        0 without errors, 1 with one, 2 when the job cannot be checked.
    """
    console = Console(highlight=False, markup=False, soft_wrap=False)
    try:
        ensure_java()
        checked = [_check(wanted, bound_ms) for wanted in queries_of(job, arguments)]
    except (JobNotCheckedError, JavaNotFound) as error:
        print(f"lint: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except Exception as error:  # noqa: BLE001 - whatever the job's own code raises
        print(f"lint: {job} fails before it is checked: {error}", file=sys.stderr)  # noqa: T201
        return 2
    if write is not None:
        write({"queries": [_as_json(query) for query in checked]})
    else:
        for number, query in enumerate(checked, 1):
            _show(console, number, query)
    return int(any(finding.severity == "error" for query in checked for finding in query.findings))


def _check(wanted: Wanted, bound_ms: int | None) -> _Checked:
    spark = wanted.df.sparkSession
    session = spark._jsparkSession  # noqa: SLF001 - the one way to Spark's own session
    analysed = wanted.df._jdf.queryExecution().analyzed()  # noqa: SLF001 - and to the plan
    mode = wanted.output_mode
    joins = read_joins(session, analysed, mode)
    plan = read_plan(analysed, session.sessionState().optimizer(), mode)
    # Which checkpoint it will run from, and with which bounds that ran, is not known here.
    bindings = listener_of(spark).bindings_in(plan)
    findings = check_own_times(plan.own_times, bindings, {})
    inputs = len(plan.watermarks)
    ended = last_windows(run_end_with(wanted.run_end, bindings, inputs), mode, inputs)
    findings += [] if ended is None else [ended]
    if joins is not None:
        findings += judge_joins(joins)
    elif (refused := refusal(session, analysed, mode)) is not None:
        findings.append(refused_start(refused))
    if mode == "append":
        findings += never_emits(analysed, session.sessionState().conf())
    read = read_operators(session, analysed, joins, bound_ms, mode)
    findings += judge_state(read.stateful, read.event_times)
    operators = [operator for operator, _ in read.operators]
    return _Checked(wanted.name, mode, joins, worst_first(findings), operators)


def _as_json(checked: _Checked) -> dict[str, object]:
    document = asdict(checked)
    document["operators"] = [{**asdict(one), "after_ms": one.after_ms} for one in checked.operators]
    if checked.joins is not None:
        document["joins"]["starts"] = checked.joins.starts
    return document


def _show(console: Console, number: int, checked: _Checked) -> None:
    console.print(f"query {checked.name or number}, output mode {checked.output_mode}", style="bold")
    if checked.joins is None:
        console.print("  it joins no two streams")
    else:
        _show_joins(console, checked.joins)
    if checked.operators:
        decided = Table("operator", "what the bounds decide", box=None, pad_edge=False)
        for operator in checked.operators:
            decided.add_row(operator.operator, operator.text)
        console.print(decided)
        console.print()
    findings = Table("severity", "where", "finding", "instead", box=None, pad_edge=False)
    for finding in checked.findings:
        findings.add_row(finding.severity, finding.where, finding.text, finding.instead)
    if checked.findings:
        console.print(findings)
    elif checked.joins is not None:
        console.print("nothing is wrong")
    console.print()


def _show_joins(console: Console, query: JoinedQuery) -> None:
    sides = Table("join", "side", "watermark", "a row is kept", box=None, pad_edge=False)
    for index, join in enumerate(query.joins, 1):
        for side in ("left", "right"):
            entry = join.left if side == "left" else join.right
            sides.add_row(f"{index} {join.type}", side, _watermark_text(entry), entry.retention_text)
    console.print(sides)
    console.print()


def _watermark_text(entry: JoinInput) -> str:
    if entry.watermark_column is None or entry.delay_ms is None:
        return "none"
    return f"{entry.watermark_column}, {format_duration(entry.delay_ms * 1_000)}"
