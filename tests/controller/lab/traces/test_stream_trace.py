"""What a job has reported, replayed: ``tidemark trace --from controller`` and ``tidemark backtest JOB STREAM``."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.lab.traces.format import read_trace
from tidemark.controller.lab.traces.from_reports import trace_of_reports
from tidemark.controller.tools.cli import app
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import policy_for
from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.run import run, score
from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.models.live.policy import BoundPolicy, Setup
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.protocol.messages import Report
from tidemark.models.specs.slo import Policy, Slo

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND, report_of
from support.synthetic import Trace, synthetic

TEN_SECONDS = tumbling("10 s")


def reports_of(
    trace: Trace, operator: Operator = TEN_SECONDS, *, trigger_us: int = SECOND, granule_us: int = SECOND
) -> list[Report]:
    """Return the reports of a job that reads ``trace``, some milliseconds after each multiple of its trigger."""
    due_us = trace.arrival_time_us // trigger_us * trigger_us + trigger_us
    edges = [0, *(np.flatnonzero(np.diff(due_us)) + 1).tolist(), len(due_us)]
    found = []
    for number, (first, last) in enumerate(pairwise(edges)):
        rows = [
            (str(part), time)
            for part, time in zip(
                trace.partition[first:last].tolist(), trace.event_time_us[first:last].tolist(), strict=True
            )
        ]
        found.append(
            report_of(
                rows,
                operator,
                late_watermark_ms=0,
                granule_us=granule_us,
                started_us=int(due_us[first]) + number % 7 * 1_000,
                batch_id=number,
                bound_ms=30_000,
                max_event_time_us=max(time for _, time in rows),
            )
        )
    return found


def counted(
    setup: Setup, event_us: Sequence[int], due_us: Sequence[int], partition: Sequence[str]
) -> Counter[object]:
    """Return the (row, window) pairs by when their batch was due, by partition and by window."""
    row, key = setup.operator.keys(np.array(event_us, np.int64))
    return Counter((due_us[at], partition[at], k) for at, k in zip(row.tolist(), key.tolist(), strict=True))


@given(
    operator=st.sampled_from([TEN_SECONDS, sliding("10 s", "5 s")]),
    trigger_us=st.sampled_from([SECOND, 250_000, 1_500_000]),
    seed=st.integers(1, 50),
)
def test_a_trace_of_reports_has_the_same_windows_in_the_same_batches(
    operator: Operator, trigger_us: int, seed: int
) -> None:
    trace = synthetic("stationary", seed, rate=20, seconds=60)
    setup = Setup(operator=operator, trigger_us=trigger_us, target_ppm=990_000)
    reports = reports_of(trace, operator, trigger_us=trigger_us)
    made = trace_of_reports(reports)
    assert (made.trigger_us, made.batches, made.uncounted_rows) == (trigger_us, len(reports), 0)

    due_us = (trace.arrival_time_us // trigger_us * trigger_us + trigger_us).tolist()
    expected = counted(setup, trace.event_time_us.tolist(), due_us, [str(p) for p in trace.partition])
    names = [made.trace.partitions[number] for number in made.trace.partition.tolist()]
    runs_us = (made.trace.arrival_time_us + trigger_us).tolist()
    assert counted(setup, made.trace.event_time_us.tolist(), runs_us, names) == expected
    newest = {due: int(trace.event_time_us[np.array(due_us) == due].max()) for due in set(due_us)}
    for due, time_us in newest.items():
        assert made.trace.event_time_us[np.array(runs_us) == due].max() == time_us, "the base is exact"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fixed:2s", "tidemark", "max60"])
def test_a_replay_of_the_reports_loses_the_rows_that_a_replay_of_the_stream_loses(policy: str) -> None:
    trace = synthetic("stationary", 3, rate=100, seconds=600)
    # A replay's slots begin with the first arrival, and the batches of a job with multiples of its trigger.
    shift_us = int(-trace.arrival_time_us[0] % SECOND)
    aligned = trace._replace(
        event_time_us=trace.event_time_us + shift_us, arrival_time_us=trace.arrival_time_us + shift_us
    )
    made = trace_of_reports(reports_of(aligned)).trace
    setup = Setup(operator=TEN_SECONDS, trigger_us=SECOND, target_ppm=990_000)
    found = []
    for each in (aligned, made):
        builder = ArrivalsBuilder(setup)
        builder.add(each.event_time_us, each.arrival_time_us, each.partition, int(trace.partition.max()) + 1)
        arrivals = builder.build()
        done = run(arrivals, setup, policy_for(policy, arrivals, setup))
        found.append((done.late, done.wall_us.tolist(), done.rows.tolist(), done.emit_wall_us.tolist()))
    assert found[0] == found[1]


def test_reports_of_another_operator_and_rows_that_were_not_counted_are_left_out_and_numbered() -> None:
    reports = reports_of(synthetic("stationary", 1, rate=20, seconds=30))
    other = [replace(report, operator=tumbling("20 s")) for report in reports[:4]]
    rows = reports[9].rows
    empty = replace(reports[9].counts, partitions=(), sizes=(), granules=(), rows=(), future_rows=())
    made = trace_of_reports([*other, *reports[4:9], replace(reports[9], counts=empty), *reports[10:]])
    assert (made.other_batches, made.uncounted_rows) == (4, rows)
    assert len(made.trace) == sum(report.rows for report in reports[4:]) - rows
    with pytest.raises(ValueError, match="no row of these reports"):
        trace_of_reports([replace(reports[9], counts=empty)])


# -- the command ---------------------------------------------------------------------------------------------


def tell(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})


def refused(tmp_path: Path, *arguments: str) -> str:
    output = tmp_path / "out" / "trace.parquet"
    output.parent.mkdir(exist_ok=True)
    result = tell("trace", *arguments, "-o", output)
    assert result.exit_code != 0, result.output
    assert list(output.parent.iterdir()) == []
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.slow
def test_the_command_says_how_to_replay_the_trace_and_that_command_works(
    controller: Controller, tmp_path: Path
) -> None:
    controller.report_all(reports_of(synthetic("stationary", 2, rate=20, seconds=120)))
    controller.http.put("/v1/jobs/job/streams/stream/slo", json={"target_ppm": 995_000})
    output = tmp_path / "my trace.parquet"
    with served(controller.app) as url:
        result = tell("trace", "job", "stream", "--from", "controller", "-o", output, "--url", url)
        newest = tell(
            *("trace", "job", "stream", "--from", "controller", "--since", "30s"),
            *("-o", tmp_path / "newest.parquet", "--url", url),
        )
    assert result.exit_code == newest.exit_code == 0, result.output + newest.output
    assert "one every 1 s; rows arrive one trigger before their batch" in result.output
    command = next(line for line in result.output.splitlines() if line.startswith("next: "))
    words = shlex.split(command.removeprefix("next: "))
    policies = ["--policy", "tidemark", "--policy", "fixed:30s"]
    options = ["--window", "10s", "--trigger", "1s", "--target", "0.995"]
    assert words == ["tidemark", "backtest", str(output), *options, *policies]
    replayed = tell(*words[1:])
    assert replayed.exit_code == 0, replayed.output
    assert replayed.stdout.startswith("On this trace Tidemark keeps")
    span_us = np.ptp(read_trace(tmp_path / "newest.parquet").arrival_time_us)
    assert 29 * SECOND <= span_us <= 30 * SECOND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "command"),
    [
        (
            sliding("10 s", "5 s"),
            "backtest T --window 10s --slide 5s --trigger 1s --policy tidemark --policy fixed:0s",
        ),
        (row_level(), "backtest T --window 0 --trigger 1s --policy tidemark --policy fixed:0s"),
        (session("7 s"), "curve T --session-gap 7s --trigger 1s"),
        (tumbling("10 s", "1 s"), None),
    ],
)
def test_each_operator_has_its_own_replay(
    controller: Controller, tmp_path: Path, operator: Operator, command: str | None
) -> None:
    rows = [[("0", START_US + n * SECOND)] for n in range(20)]
    controller.report_all([replace(report, bound_ms=0) for report in query_reports(rows, operator=operator)])
    with served(controller.app) as url:
        result = tell("trace", "job", "stream", "--from", "controller", "-o", tmp_path / "T", "--url", url)
    assert result.exit_code == 0, result.output
    said = [line for line in result.output.splitlines() if line.startswith("next: ")]
    assert said == (
        [] if command is None else [f"next: tidemark {command.replace('T', str(tmp_path / 'T'), 1)}"]
    )
    assert ("no windows with a start of their own" in result.output) == (command is None)


def test_a_wrong_call_ends_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    of_controller = ("--from", "controller")
    assert "takes the names of a job and of a stream" in refused(tmp_path, "job", *of_controller)
    assert "--since must be above 0" in refused(tmp_path, "job", "stream", *of_controller, "--since", "0s")
    assert "--from controller does not take --partition, --topic" in refused(
        tmp_path, "job", "stream", *of_controller, "--topic", "t", "--partition", "p"
    )
    nobody = "http://127.0.0.1:9"
    assert nobody in refused(tmp_path, "job", "stream", *of_controller, "--url", nobody)


@pytest.mark.slow
def test_a_stream_that_is_not_known_is_said_to_be_so(controller: Controller, tmp_path: Path) -> None:
    with served(controller.app) as url:
        line = refused(tmp_path, "job", "stream", "--from", "controller", "--url", url)
    assert line.startswith("tidemark: there is no job 'job'; no job has reported")


# -- a target that is tried beside the SLO in force ----------------------------------------------------------

Backtest = Callable[..., Result]
STREAM_PATH = "/v1/jobs/job/streams/stream"
REPORTED = reports_of(synthetic("stationary", 2, rate=40, seconds=240))


@pytest.fixture
def backtest(controller: Controller) -> Iterator[Backtest]:
    """Run the command against the controller."""
    with served(controller.app) as url:

        def call(*options: str) -> Result:
            arguments = ["backtest", "job", "stream", *options]
            return CliRunner().invoke(app, arguments, env={"TIDEMARK_URL": url, "COLUMNS": "300"})

        yield call


def line_of(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    return line


def put(controller: Controller, what: str, **fields: Any) -> None:
    assert controller.http.put(f"{STREAM_PATH}/{what}", json=fields).status_code in {200, 201}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["Off", "Live"])
def test_both_targets_are_replayed_on_the_reports_as_the_controller_decides(
    controller: Controller, backtest: Backtest, mode: str
) -> None:
    controller.report_all(REPORTED)
    put(controller, "slo", target_ppm=900_000, confidence_ppm=900_000)
    policy = {"mode": mode, "margin_ppm": 100_000}
    put(controller, "policy", **policy)
    before = controller.http.get(STREAM_PATH).json()
    result = backtest("--target", "0.99", "-o", "json")
    assert result.exit_code == 0, result.output
    assert controller.http.get(STREAM_PATH).json() == before

    made = trace_of_reports(REPORTED)
    for record, name, target_ppm in zip(
        json.loads(result.stdout), ["in force", "tried"], [900_000, 990_000], strict=True
    ):
        live = mode == "Live"
        setup = Setup(
            operator=TEN_SECONDS,
            trigger_us=SECOND,
            target_ppm=target_ppm,
            mode="live" if live else "restart",
        )
        builder = ArrivalsBuilder(setup)
        builder.add(
            made.trace.event_time_us,
            made.trace.arrival_time_us,
            made.trace.partition,
            len(made.trace.partitions),
        )
        arrivals = builder.build()
        slo = Slo(target_ppm=target_ppm, confidence_ppm=900_000)
        recommended = RecommendedPolicy(setup, slo, Policy(margin_ppm=100_000), 30 * SECOND)
        decides: BoundPolicy = Tidemark(setup) if live else recommended
        expected = score(arrivals, setup, run(arrivals, setup, decides))
        assert (record["slo"], record["target_ppm"], record["mode"]) == (name, target_ppm, setup.mode)
        assert (record["rows"], record["late"]) == (expected.pairs, expected.late)
        assert expected.latency_mean_us is not None
        assert record["latency_mean_us"] == round(expected.latency_mean_us)
        assert record["bound_changes"] == expected.bound_changes


@pytest.mark.slow
def test_the_two_are_shown_side_by_side_and_a_cap_that_is_not_kept_is_named(
    controller: Controller, backtest: Backtest
) -> None:
    controller.report_all(REPORTED)
    put(controller, "slo", target_ppm=990_000, state_cap_rows=9)
    result = backtest("--target", "0.9", "--latency-cap", "1s")
    assert result.exit_code == 0, result.output
    first, heading, in_force, tried, state, cap = result.stdout.splitlines()
    assert first == "job/stream: 9,600 rows of 242 batches that were reported, replayed as in mode Restart"
    assert heading.split()[:3] == ["SLO", "target", "latency"]
    assert in_force.split()[:6] == ["in", "force", "99", "%", "-", "met"]
    assert tried.split("  ")[0] == "tried"
    assert "1 s" in tried
    assert ", above the cap" in tried
    assert state == "note: a replay knows no state, so the state cap is left out"
    assert cap.startswith("note: this replay does not decide by the latency cap")


@pytest.mark.slow
def test_a_stream_with_session_windows_is_replayed_too(controller: Controller, backtest: Backtest) -> None:
    rows = [[("0", START_US + n * SECOND)] for n in range(20)]
    controller.report_all(query_reports(rows, operator=session("7 s")))
    put(controller, "slo", target_ppm=900_000)
    result = backtest("--target", "0.5")
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_another_horizon_is_tried_and_a_bound_that_never_changed_says_why(
    controller: Controller, backtest: Backtest
) -> None:
    controller.report_all(query_reports([[("0", START_US + n * SECOND)] for n in range(20)]))
    put(controller, "slo", target_ppm=900_000)
    result = backtest("--horizon", "1m")
    assert result.exit_code == 0, result.output
    said = result.stdout.replace("\n", " ")
    for which, horizon in (("in force", "1 d"), ("tried", "60 s")):
        assert f"{which}, the bound never changed: not enough evidence: " in said
        assert f"over the horizon of {horizon}" in said
    assert "the horizon must be above 0 and at most 31 d" in line_of(backtest("--horizon", "32d"))


@pytest.mark.slow
def test_what_cannot_be_tried_is_one_line_that_says_why(controller: Controller, backtest: Backtest) -> None:
    assert "there is no job 'job'" in backtest("--target", "0.9").stderr
    controller.report_all(REPORTED[:5])
    assert "job/stream has no SLO to try another one beside; `tidemark trace job stream" in line_of(
        backtest("--target", "0.9")
    )
    put(controller, "slo", target_ppm=990_000)
    assert "say what to try beside the SLO in force" in line_of(backtest())
    assert "a stream is replayed as it runs, so it does not take --window, --policy" in line_of(
        backtest("--target", "0.9", "--policy", "flink", "--window", "1m")
    )
    assert "--since must be above 0" in line_of(backtest("--target", "0.9", "--since", "0s"))
    other = "/v1/jobs/job/streams/other"
    controller.report_all(query_reports([[("0", START_US)]], stream="other"))
    assert controller.http.put(f"{other}/slo", json={"target_ppm": 990_000}).is_success
    joined = controller.http.put(
        "/v1/jobs/job/joins/both", json={"streams": ["stream", "other"], "target_ppm": 990_000}
    )
    assert joined.is_success, joined.text
    assert "is a side of join both" in line_of(backtest("--target", "0.9"))
    assert controller.http.delete("/v1/jobs/job/joins/both", headers={"If-Match": "*"}).is_success
    etag = controller.http.get(f"{STREAM_PATH}/slo").headers["ETag"]
    controller.http.put(
        f"{STREAM_PATH}/slo",
        json={"target_ppm": 990_000, "objective": "timeslices"},
        headers={"If-Match": etag},
    )
    assert "has a goal for single windows" in line_of(backtest("--target", "0.9"))
