"""``tidemark slo``, ``policy``, ``status`` and ``curve`` against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import Acknowledgement
from tidemark.models.specs.freeze import DAYS, format_freeze, parse_freeze
from tidemark.models.specs.slo import MINUTES_OF_DAY
from tidemark.models.specs.words import read_number, read_share

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.served import served

REPORTS = query_reports(exponential_batches(60, 40, slow=3))
Tidemark = Callable[..., Result]


@pytest.fixture
def tidemark(controller: Controller) -> Iterator[Tidemark]:
    """Run a command against the controller, behind a real socket."""
    with served(controller.app) as url:

        def run(*arguments: str) -> Result:
            environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
            return CliRunner().invoke(app, list(arguments), env=environment)

        yield run


def said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def document(result: Result) -> Any:
    return json.loads("\n".join(said(result)))


def line(result: Result, code: int) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (body,) = result.stderr.splitlines()
    return body


# -- slo -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dry_run_says_when_windows_behind_a_join_close_beside_the_reason(
    controller: Controller, tidemark: Tidemark
) -> None:
    applied = Acknowledgement(
        query_id="query",
        run_id="run",
        bound_ms=5_000,
        generation=None,
        source="job",
        mode="Off",
        applied_us=START_US,
        downstream=Downstream(retention_ms=6_001),
    )
    controller.acknowledge(applied)
    controller.report_all(REPORTS)
    lines = said(tidemark("slo", "set", "job", "stream", "--target", "0.9", "--dry-run"))
    (recommended,) = [line for line in lines if line.startswith("  recommended: ")]

    assert " s of evidence; 29.2 s would have spent at most 25 % of the error budget " in recommended
    assert ", so that it lasts; windows close at bound + 6.001 s behind the join: " in recommended


@pytest.mark.slow
def test_an_slo_is_set_changed_field_by_field_and_shown(controller: Controller, tidemark: Tidemark) -> None:
    controller.report_all(REPORTS)
    lines = said(tidemark("slo", "set", "job", "stream", "--target", "0.9", "--latency-cap", "15 minutes"))
    assert lines[0] == "set the SLO of job/stream: 90 % of the rows, a mean latency of at most 15 min"
    assert lines[1].startswith("  recommended: ")
    assert lines[2].startswith("  expected effect: ")
    assert lines[-2].startswith("  published: the job keeps its own bound")
    assert lines[-1] == "  next: tidemark doctor job stream"
    said(
        tidemark(
            *("slo", "set", "job", "stream", "--on-conflict", "exceed-latency-cap", "--confidence", "0.99"),
            *("--horizon", "12h", "--worst-window", "0.5", "--state-cap", "1_000_000", "--window", "7 days"),
            *("--objective", "timeslices", "--good-windows", "1", "--reason", "why not"),
        )
    )
    slo = document(tidemark("slo", "get", "job", "stream", "--json"))
    assert slo == controller.get("/slo").json()
    assert (slo["target_ppm"], slo["latency_cap_ms"], slo["on_conflict"]) == (
        900_000,
        900_000,
        "exceed_latency_cap",
    )
    assert (slo["confidence_ppm"], slo["horizon_ms"], slo["good_windows_ppm"]) == (
        990_000,
        43_200_000,
        1_000_000,
    )
    assert (slo["worst_window_ppm"], slo["state_cap_rows"], slo["window_ms"]) == (
        500_000,
        1_000_000,
        604_800_000,
    )
    said(tidemark("slo", "set", "job", "stream", "--latency-cap", "none", "--on-conflict", "none"))
    slo = document(tidemark("slo", "get", "job", "stream", "--json"))
    assert (slo["latency_cap_ms"], slo["on_conflict"]) == (None, None)
    lines = said(tidemark("slo", "get", "job", "stream"))
    assert lines[0] == "target        90%"
    assert "horizon       12 h" in lines
    (listed,) = document(tidemark("slo", "list", "--json"))["streams"]
    assert listed["target_ppm"] == 900_000
    assert "job/stream" in said(tidemark("slo", "list", "job"))[1]
    assert line(tidemark("slo", "list", "other"), 1) == "tidemark: there is no job 'other'; there is only job"


@pytest.mark.slow
def test_a_dry_run_says_what_would_follow_and_sets_nothing(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.report_all(REPORTS)
    lines = said(tidemark("slo", "set", "job", "stream", "--target", "0.9", "--dry-run"))
    assert lines[0].startswith("would set the SLO of job/stream")
    assert lines[1].startswith("  recommended: ")
    assert controller.get("/slo").status_code == 404
    body = document(tidemark("policy", "set", "job", "stream", "--mode", "Live", "--dry-run", "--json"))
    assert (body["dry_run"], body["published"]["generation"]) == (True, 1)
    assert controller.get("/policy").json()["mode"] == "Off"


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ((), 2, "give at least one option, such as --target 0.995"),
        (("--target", "2"), 2, "must lie between 0 and 1"),
        (("--target", "0.9", "--horizon", "soon"), 2, "--horizon: duration 'soon'"),
        (
            ("--target", "0.9", "--horizon", "0.0001 s"),
            2,
            "--horizon: '0.0001 s' is finer than a millisecond",
        ),
        (
            ("--target", "0.9", "--confidence", "x"),
            2,
            "--confidence: 'x' is not a number such as '99.5%' or '0.995'",
        ),
        (("--target", "0.9", "--state-cap", "-1"), 2, "--state-cap: '-1' is not a whole number"),
        (("--confidence", "0.9"), 1, "--target: it is missing"),
    ],
    ids=str,
)
def test_what_cannot_be_set_is_one_line_that_names_it(
    tidemark: Tidemark, options: tuple[str, ...], code: int, sentence: str
) -> None:
    assert sentence in line(tidemark("slo", "set", "job", "stream", "--create", *options), code)


def test_what_is_not_there_is_one_line_with_the_way_out(tidemark: Tidemark) -> None:
    nothing = "tidemark: there is no job 'job'; no job has reported, and no SLO or policy is set"
    for command in ("slo get job stream", "policy get job stream", "status job", "status job stream"):
        assert line(tidemark(*command.split()), 1) == nothing
    assert said(tidemark("status")) == ["there are no jobs yet: none has reported"]
    assert tidemark("policy", "set", "a job", "stream", "--create", "--mode", "Off").exit_code == 0
    body = line(tidemark("slo", "get", "a job", "stream"), 1)
    assert body.endswith("`tidemark slo set 'a job' stream --target 0.99` sets one")
    assert tidemark("policy", "delete", "a job", "stream").exit_code == 0
    unreachable = line(tidemark("status", "--url", "http://127.0.0.1:1"), 1)
    assert unreachable.endswith("is `tidemark serve` running there? --url names another address")
    assert tidemark("slo", "set", "job").exit_code == 2


def test_a_name_that_is_not_there_is_answered_with_the_nearest_one(tidemark: Tidemark) -> None:
    assert tidemark("slo", "set", "shop", "clicks", "--create", "--target", "99.5%").exit_code == 0
    assert line(tidemark("status", "shop", "click"), 1).endswith("; did you mean 'clicks'?")
    assert "did you mean" not in line(tidemark("status", "shop", "views"), 1)
    assert "did you mean" not in line(tidemark("status", "store", "clicks"), 1)


# -- policy --------------------------------------------------------------------------------------------------------


def test_a_policy_is_changed_field_by_field_and_shown(controller: Controller, tidemark: Tidemark) -> None:
    lines = said(
        tidemark("policy", "set", "job", "stream", "--create", "--mode", "OnRestart", "--max-bound", "1 hour")
    )
    assert lines[0] == "set the policy of job/stream: mode OnRestart, bounds of 0 s to 1 h"
    said(
        tidemark(
            *("policy", "set", "job", "stream", "--min-bound", "30 s", "--directions", "widen"),
            *(
                "--margin",
                "0.1",
                "--cooldown",
                "2h",
                "--max-narrowings-a-day",
                "3",
                "--max-narrowing",
                "0.25",
            ),
            *("--freeze", "Mon-Fri 08:00-18:00", "--freeze", "Sat", "--on-no-data", "max"),
            *("--approval", "first", "--evidence", "30 minutes", "--evidence-windows", "0"),
        )
    )
    policy = document(tidemark("policy", "get", "job", "stream", "--json"))
    assert policy == controller.get("/policy").json()
    assert (policy["mode"], policy["min_bound_ms"], policy["max_bound_ms"]) == (
        "OnRestart",
        30_000,
        3_600_000,
    )
    assert (policy["directions"], policy["margin_ppm"], policy["cooldown_ms"]) == (
        ["Widen"],
        100_000,
        7_200_000,
    )
    assert (policy["approval"], policy["evidence_ms"], policy["evidence_windows"]) == ("first", 1_800_000, 0)
    lines = said(tidemark("policy", "get", "job", "stream"))
    assert "evidence              30 min" in lines
    assert "freeze                Mon,Tue,Wed,Thu,Fri 08:00-18:00; Sat" in lines
    said(
        tidemark(
            *("policy", "set", "job", "stream", "--freeze", "none", "--max-narrowing", "none"),
            *("--directions", "both", "--on-no-data", "hold", "--max-bound", "none"),
        )
    )
    policy = document(tidemark("policy", "get", "job", "stream", "--json"))
    assert (policy["freeze_windows"], policy["max_narrowing_ppm"], policy["max_bound_ms"]) == (
        [],
        None,
        None,
    )


def test_outside_gates_are_named_as_the_operators_named_them(tidemark: Tidemark) -> None:
    body = line(
        tidemark("policy", "set", "job", "stream", "--create", "--gate", "calendar", "--gate", "errors"), 1
    )
    assert "--gate: this controller has no outside gate 'calendar'; it has none; its operators add" in body
    assert "; --gate: this controller has no outside gate 'errors'" in body
    said(tidemark("policy", "set", "job", "stream", "--create", "--gate", "none"))
    assert "gate                  -" in said(tidemark("policy", "get", "job", "stream"))


def test_labels_are_given_by_name_and_replaced_as_a_whole(tidemark: Tidemark) -> None:
    for wrong, problem in (("team", "write it like team=payments"), ("tier=2", "tier is given twice")):
        body = line(tidemark("policy", "set", "job", "stream", "--label", "tier=1", "--label", wrong), 2)
        assert body.endswith(problem)
    said(tidemark("policy", "set", "job", "stream", "--create", "--label", "team=web", "--label", "url=a=b"))
    said(tidemark("policy", "set", "job", "stream", "--mode", "OnRestart"))
    assert "label                 team=web, url=a=b" in said(tidemark("policy", "get", "job", "stream"))
    said(tidemark("policy", "set", "job", "stream", "--label", "none"))
    assert "label                 -" in said(tidemark("policy", "get", "job", "stream"))


windows = st.builds(
    lambda days, minutes: {"days": sorted(days, key=DAYS.index), **minutes},
    st.sets(st.sampled_from(DAYS), min_size=1),
    st.tuples(st.integers(0, MINUTES_OF_DAY - 1), st.integers(1, MINUTES_OF_DAY))
    .filter(lambda pair: pair[0] < pair[1])
    .map(lambda pair: {"from_minute": pair[0], "to_minute": pair[1]}),
)


@pytest.mark.slow
@given(windows)
def test_a_freeze_window_reads_back_as_it_is_shown(window: dict[str, Any]) -> None:
    whole = {"from_minute": 0, "to_minute": MINUTES_OF_DAY}
    assert {**whole, **parse_freeze(format_freeze(window))} == window


def test_days_go_on_over_the_week_s_end() -> None:
    assert parse_freeze("Fri-Mon")["days"] == ["Fri", "Sat", "Sun", "Mon"]
    assert parse_freeze("mon,WED 08:00-24:00") == {
        "days": ["Mon", "Wed"],
        "from_minute": 480,
        "to_minute": 1_440,
    }


@pytest.mark.parametrize(
    "text",
    ["", "Mon 8-18", "Xyz", "Mon 18:00-08:00", "Mon 08:00-08:00", "Mon-Wed,Tue", "Mon 08:61-09:00", "Mon-"],
)
def test_what_is_not_a_freeze_window_is_rejected_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(text))}: "):
        parse_freeze(text)


@given(st.integers(0, 31 * 86_400_000))
def test_a_duration_reads_back_as_it_is_shown(duration_ms: int) -> None:
    assert milliseconds_of(format_duration(duration_ms * 1_000), "--x") == duration_ms


@given(st.integers(0, 10_000_000))
def test_a_share_and_a_number_read_back_to_the_last_part(number: int) -> None:
    share = number % 1_000_001
    assert read_share(f"{share / 1_000_000:.6f}") == share
    assert read_number(f"{number:,}") == number


# -- status and curve ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_status_shows_the_fleet_a_job_or_a_stream(controller: Controller, tidemark: Tidemark) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once())
    controller.report_all(REPORTS)
    controller.tick()
    (job,) = document(tidemark("status", "--json"))["jobs"]
    assert (job["job"], job["streams"]) == ("job", 1)
    assert "1 OnRestart" in said(tidemark("status"))[1]
    assert document(tidemark("status", "job", "--json")) == controller.http.get("/v1/jobs/job").json()
    lines = said(tidemark("status", "job"))
    assert lines[1].split()[:2] == ["stream", "OnRestart"]
    assert lines[2].startswith("stream: WaitsForStart: ")
    assert document(tidemark("status", "job", "stream", "--json")) == controller.status()
    text = "\n".join(said(tidemark("status", "job", "stream")))
    assert "SLO              90 % of the rows" in text
    assert "WaitsForStart: " in text


@pytest.mark.slow
def test_the_curve_of_a_stream_is_shown_where_it_bends_or_where_asked(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    assert said(tidemark("curve", "job", "stream")) == ["no rows of job/stream are known yet"]
    controller.report_all(REPORTS)
    found = document(tidemark("curve", "job", "stream", "--bounds", "0,5s,1m", "--json"))
    assert [point["bound_ms"] for point in found["points"]] == [0, 5_000, 60_000]
    lines = said(tidemark("curve", "job", "stream"))
    assert lines[0].startswith("job/stream, batches of 2026-01-01 00:00:")
    assert lines[1].split()[:3] == ["bound", "completeness", "at"]
    # A bound that admits no more than a smaller one is left out, unless it is asked for.
    late = [re.split(r"\s{2,}", row)[3] for row in lines[2:]]
    assert len(late) == len(set(late)) > 3
    asked = said(tidemark("curve", "job", "stream", "--bounds", "2h,3h"))
    assert [re.split(r"\s{2,}", row)[3] for row in asked[2:]] == ["0", "0"]
    assert {row.split()[-1] for row in lines[2:]} == {"yes", "no"}


def test_the_curve_says_when_its_rows_are_no_evidence(controller: Controller, tidemark: Tidemark) -> None:
    controller.put("/slo", {"target_ppm": 999_000})
    controller.report_all(query_reports(exponential_batches(8, 5)))
    lines = said(tidemark("curve", "job", "stream"))
    assert lines[-1].startswith("not enough evidence: ")
    assert lines[-1].endswith(" rows, so no bound is certified")
    assert {row.split()[-1] for row in lines[2:-1]} == {"-"}


def test_the_curve_of_a_trace_is_no_curve_of_a_stream(tidemark: Tidemark) -> None:
    assert line(tidemark("curve", "job", "stream", "--window", "1m"), 2).endswith("need a trace")
