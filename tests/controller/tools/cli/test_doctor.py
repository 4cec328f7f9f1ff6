"""``tidemark doctor``: against a real server, from nothing known to nothing missing."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.checkup import Place, checkup
from tidemark.controller.tools.cli.doctor import _reach
from tidemark.controller.tools.cli.show import moment
from tidemark.controller.tools.client import Client, UnreachableError
from tidemark.controller.view.state.condition_types import CONDITION_TYPES
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Acknowledgement, LiveState
from tidemark.models.specs.slo import Day

from support.controller_app import Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports, restarted_reports
from support.served import served

BATCHES = exponential_batches(60, 100)
REPORTS = query_reports(BATCHES[:40])
Doctor = Callable[..., Result]


@pytest.fixture
def doctor(controller: Controller) -> Iterator[Doctor]:
    """Ask the doctor about the controller, behind a real socket; the address is written URL."""
    with served(controller.app) as url:

        def run(*arguments: str, **environment: str) -> Result:
            names = arguments or ("job", "stream")
            result = CliRunner().invoke(
                app, ["doctor", *names, "--url", url], env={"TIDEMARK_TOKEN": "", **environment}
            )
            result.stdout_bytes = result.stdout_bytes.replace(url.encode(), b"URL")
            return result

        yield run


def missing(result: Result) -> dict[str, str]:
    """What is missing, with the next step."""
    found = lacking(result, "missing")
    assert result.exit_code == (1 if found else 0), result.output
    return found


def lacking(result: Result, level: str) -> dict[str, str]:
    lines = result.stdout.splitlines()
    return {
        line.removeprefix(f"  {level}  "): after.removeprefix("           next: ")
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith(f"  {level}  ")
    }


def warned(result: Result) -> dict[str, str]:
    """What somebody should look at, with the next step, where nothing is missing."""
    assert missing(result) == {}
    return lacking(result, "warning")


def fine(result: Result) -> list[str]:
    return [
        line.removeprefix("  ok       ") for line in result.stdout.splitlines() if line.startswith("  ok ")
    ]


def acknowledge(controller: Controller, **changes: Any) -> None:
    fields: dict[str, Any] = {
        "query_id": "query",
        "run_id": "run",
        "bound_ms": 5_000,
        "generation": None,
        "source": "controller",
        "mode": "OnRestart",
        "applied_us": START_US,
        "ceiling_ms": None,
    }
    answer = controller.acknowledge(Acknowledgement(**{**fields, **changes}))
    assert answer.status_code == 201, answer.text


NO_JOB = "there is no job 'job'; no job has reported, and no SLO or policy is set"
START = "spark-submit --conf spark.tidemark.job=job --conf spark.tidemark.controller.url=URL ..."
FIRST_START = (
    f"{START}; if it runs already, see what its driver's log says of the controller: in Kubernetes a job of another "
    "namespace is shut out until the chart's networkPolicy.from names it"
)


@pytest.mark.slow
def test_the_way_from_nothing_to_a_job_that_runs_as_recommended(
    controller: Controller, doctor: Doctor
) -> None:
    assert missing(doctor("job")) == {NO_JOB: FIRST_START}
    assert missing(doctor()) == {"nothing is known of it: no report has come": FIRST_START}

    controller.report_all(REPORTS[:6])
    assert missing(doctor()) == {
        "no SLO is set, so nothing is recommended": "tidemark slo set job stream --target 0.99 --url URL"
    }
    assert lacking(doctor(), "warning") == {
        "the mode is Off: Tidemark only watches, and the job keeps its own bound": (
            "tidemark policy set job stream --mode OnRestart --url URL"
        ),
    }

    controller.put("/slo", {"target_ppm": 990_000})
    controller.put("/policy", at_once())
    controller.tick()
    assert warned(doctor()) == {
        "not enough evidence: 400 rows (as 15 independent events); 10,931 rows (as 417 independent events) are needed "
        "to certify 99 % at 95 % confidence at every look; counted over the horizon of 1 d, of which 5 s has been "
        "reported: more rows are to come": ("let the job run, then tidemark doctor job stream --url URL")
    }

    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(REPORTS[6:])
    controller.tick()
    (body,) = warned(doctor()).items()
    assert doctor("job", "stream", "--strict").exit_code == 1
    assert body[0].startswith("generation 2, ")
    assert body[0].endswith("is published; the job has acknowledged none")
    assert body[1] == f"the job takes it when it next starts: {START}"

    answer = controller.get("/bound").json()
    acknowledge(controller, bound_ms=answer["bound_ms"], generation=answer["generation"])
    result = doctor("job", "--strict")
    assert (missing(result), warned(result)) == ({}, {})
    assert fine(result)[0] == "the controller at URL answers"
    assert "the SLO requires 90 % of the rows at a confidence of 95 %" in fine(result)
    assert "there is enough evidence: 3,800 rows, and 374 are needed" in fine(result)


def test_programs_get_the_same_findings_as_people(controller: Controller, doctor: Doctor) -> None:
    unknown = json.loads(doctor("job", "--json").stdout)["findings"]
    assert unknown[-1] == {
        "job": "job",
        "stream": None,
        "fine": False,
        "level": "missing",
        "text": NO_JOB,
        "next": FIRST_START,
    }
    controller.report_all(REPORTS[:6])
    result, people = doctor("job", "--json"), doctor("job")
    found = json.loads(result.stdout)["findings"]
    assert (result.exit_code, people.exit_code) == (1, 1)
    for level in ("missing", "warning"):
        expected = {one["text"]: one["next"] for one in found if one["level"] == level}
        assert lacking(people, level) == expected != {}
    assert [one["text"] for one in found if one["fine"]] == fine(people)
    assert [one["fine"] for one in found] == [one["level"] == "ok" for one in found]
    assert [one["stream"] for one in found] == [None, *["stream"] * (len(found) - 1)]


def test_nothing_is_called_ok_that_only_a_report_can_show(controller: Controller, doctor: Doctor) -> None:
    """A stream that is expected: no batch was reported, so that not every batch was."""
    controller.put("/slo", {"target_ppm": 990_000})
    controller.put("/policy", at_once())
    result = doctor()
    assert "no report has come; the stream is expected" in missing(result)
    about_reports = ("every batch was reported", "silent", "skewed", "future-dated", "reports come")
    assert [line for line in fine(result) if any(word in line for word in about_reports)] == []


def test_a_freeze_that_holds_is_said_with_its_end_and_asks_for_nothing(
    controller: Controller, doctor: Doctor
) -> None:
    freeze = {"days": list(get_args(Day)), "from_minute": 0, "to_minute": 1_440}
    controller.put("/slo", {"target_ppm": 990_000})
    controller.put("/policy", at_once(freeze_windows=[freeze]))
    controller.report_all(REPORTS)
    controller.tick()
    status = controller.status()
    assert status["frozen_until_us"] > controller.clock.now_us
    (said,) = [line for line in fine(doctor()) if "a freeze window of the policy holds" in line]
    assert said.endswith(f": nothing is narrowed until {moment(status['frozen_until_us'])}")
    with served(controller.app) as url:
        shown = CliRunner().invoke(app, ["status", "job", "stream", "--url", url]).stdout
    assert f"NarrowingFrozen: {said}" in shown


def test_every_stream_of_a_job_is_checked(controller: Controller, doctor: Doctor) -> None:
    for job, stream in (("job", "b"), ("job", "a"), ("other", "c")):
        controller.http.put(f"/v1/jobs/{job}/streams/{stream}/slo", json={"target_ppm": 900_000})
    result = doctor("job")
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == ["job/a", "job/b"]
    assert result.exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "step"),
    [
        ("OnRestart", "the job takes it when it next starts: "),
        ("Restart", "the job takes it by itself where its query is started by run_adaptive(build)"),
        ("Live", "a job takes it by itself once it was started in Live: "),
    ],
)
def test_what_a_job_has_to_do_for_a_bound_depends_on_the_mode(
    controller: Controller, doctor: Doctor, mode: str, step: str
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once(mode))
    controller.report_all(REPORTS)
    controller.tick()
    (body,) = warned(doctor()).values()
    assert body.startswith(step)


def test_of_a_live_job_that_cannot_be_steered_the_log_says_why(
    controller: Controller, doctor: Doctor
) -> None:
    controller.put("/policy", at_once("Live"))
    acknowledge(controller, mode="Live", generation=1)
    found = missing(doctor())
    (body,) = [step for text, step in found.items() if text.startswith("the job cannot be steered")]
    assert body.startswith("read the job's log")


LIVE = LiveState(
    ceiling_ms=60_000, control_ms=None, reason="why", ceiling_used_ppm=900_000, last_contact_us=START_US * 2
)


def far_ahead(counts: GranuleCounts) -> GranuleCounts:
    return replace(counts, future_rows=(1, *counts.future_rows[1:]))


@pytest.mark.slow
def test_gaps_silent_partitions_pins_a_near_ceiling_and_future_rows_each_have_a_next_step(
    controller: Controller, doctor: Doctor
) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once("Live"))
    acknowledge(controller, mode="Live", generation=2, ceiling_ms=60_000)
    three = [[row for row in batch if row[0] != "3"] for batch in BATCHES[40:]]
    after = restarted_reports(REPORTS, three, bound_ms=5_000, generation=None)
    after[-1] = replace(after[-1], counts=far_ahead(after[-1].counts), live=LIVE)
    controller.report_all([report for report in [*REPORTS, *after] if report.batch_id not in {7, 8}])
    controller.tick()
    controller.http.put("/v1/pin?job=job", json={"to": "Ceiling", "reason": "INC-1"})
    result = doctor()
    grave, found = missing(result), missing(result) | lacking(result, "warning")
    partitions = "tidemark partitions job stream --url URL"
    expected = {
        "2 batches were never reported": "the newest are batches 7 to 8; nothing is narrowed before they leave",
        "1 partition that used to report is silent": partitions,
        "1 row was future-dated and set back to the clock": partitions,
        "the watermark trails the stream by 90% of the ceiling, 60 s": f"see what is behind: {partitions}",
        "the job is held to its ceiling alone by the pin on job 'job': INC-1": (
            "tidemark unpin job --url URL"
        ),
    }
    (only,) = grave
    assert only.startswith("the watermark trails the stream by 90% of the ceiling")
    assert len(found) == len(expected)
    for text, step in expected.items():
        (body,) = [steps for line, steps in found.items() if line.startswith(text)]
        assert body.startswith(step), text


def test_commands_carry_the_token_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_TOKEN", "tdm_secret")
    with Client("http://c") as client:
        place = Place.of(client, "j", "s")
    assert place.curl() == 'curl -H "Authorization: Bearer $TIDEMARK_TOKEN" http://c/v1/jobs/j/streams/s'


def test_a_controller_that_cannot_be_asked_is_exit_code_2_with_a_next_step() -> None:
    result = CliRunner().invoke(app, ["doctor", "job", "--url", "http://127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("tidemark: the controller at http://127.0.0.1:1 cannot be reached: ")
    assert result.stderr.endswith("; next: `tidemark serve`, or name its address by --url\n")


def test_a_controller_that_does_not_answer_at_all_may_be_behind_a_network_policy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(url, attempts=1, timeout_seconds=0.05) as client,
            pytest.raises(UnreachableError) as raised,
        ):
            client.ready()
    assert _reach(str(raised.value)).endswith("by the chart's networkPolicy.from")


def test_a_store_that_is_not_there_is_exit_code_2(
    controller: Controller, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller.service.database, "release_version", "0099")
    assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 503
    result = doctor()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "this release wants 0099" in result.stderr


def test_every_condition_has_a_next_step_but_those_that_end_by_themselves() -> None:
    without = {kind for kind, its_type in CONDITION_TYPES.items() if its_type.step is None}
    assert without == {"Rolling", "NarrowingFrozen", "NoRowIsLate"}


def test_a_condition_of_a_newer_controller_is_shown_too(controller: Controller) -> None:
    controller.report(REPORTS[0])
    status = controller.status()
    status["conditions"].append({"type": "SomethingNew", "detail": "something new"})
    place = Place("http://c", "j", "s")
    assert [
        (found.text, found.step) for found in checkup(status, place) if found.text == "something new"
    ] == [("something new", "curl http://c/v1/jobs/j/streams/s")]


@pytest.mark.parametrize(
    ("match", "level", "said"),
    [
        ('match = {team = "web"}', "ok", "its alerts go to hooks; its labels are team=web"),
        ("", "ok", "its alerts go to hooks; its labels are team=web"),
        (
            'match = {team = "wbe"}',
            "warning",
            "no destination takes these alerts: Tidemark",
        ),
        (
            'match = {severity = "page"}',
            "warning",
            "no destination takes these alerts: Tidemark",
        ),
    ],
)
def test_alerts_that_no_destination_takes_are_named(
    database_url: str, tmp_path: Path, match: str, level: str, said: str
) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text(f'[hooks]\nwebhook = "http://127.0.0.1:9/"\n{match}\n')
    with Controller(database_url, notify_file=file, notify_seconds=3_600) as controller:
        controller.put("/policy", {"labels": {"team": "web"}})
        checks = checkup(controller.status(), Place("URL", "job", "stream"))
    (check,) = (one for one in checks if "alerts" in one.text)
    assert check.level == level
    assert check.text.startswith(said)
    if level == "warning":
        assert check.text.endswith("; its labels are team=web")
        assert str(check.step).startswith(
            "tidemark policy set job stream --label team=... --url URL, or have the"
        )
