"""``tidemark apply`` and ``tidemark export`` against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from sqlalchemy import select

from tidemark.controller.base.db.tables import EventRow
from tidemark.controller.tools.cli import app
from tidemark.controller.tools.client import Client
from tidemark.controller.tools.client.applying import SpecChange, carry_out
from tidemark.controller.tools.client.errors import ChangedError, RequestRejectedError
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports
from support.served import served
from support.tokens import make_token

pytestmark = pytest.mark.slow

Tidemark = Callable[..., Result]


@pytest.fixture
def tidemark(controller: Controller, tmp_path: Path) -> Iterator[Tidemark]:
    """Run a command against the controller, in a folder of its own."""
    with served(controller.app) as url, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)

        def run(*arguments: str, token: str = "", text: str | None = None) -> Result:
            environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": token, "COLUMNS": "200"}
            return CliRunner().invoke(app, list(arguments), env=environment, input=text)

        yield run


def slo(stream: str, target: str = "0.995", **annotations: str) -> dict[str, Any]:
    given = {"tidemark/job": "job", "tidemark/stream": stream, **annotations}
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": f"job-{stream}", "annotations": given},
        "spec": {
            "service": "job",
            "indicatorRef": f"job-{stream}",
            "budgetingMethod": "Occurrences",
            "objectives": [{"target": float(target)}],
        },
    }


def policy(stream: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "tidemark/v1", "kind": "Policy", "spec": {"job": "job", "stream": stream, **fields}}


def join(*streams: str) -> dict[str, Any]:
    spec = {"job": "job", "join": "pairs", "streams": list(streams), "target_ppm": 900_000}
    return {"apiVersion": "tidemark/v1", "kind": "Join", "spec": spec}


def write(name: str, *documents: dict[str, Any]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(yaml.safe_dump_all(documents), encoding="utf-8")


def said(result: Result, code: int = 0) -> list[str]:
    assert result.exit_code == code, result.output
    return result.stdout.splitlines()


def report_sides(controller: Controller) -> None:
    """Report the two streams of a join: only one query can have an SLO on its output."""
    for name in ("left", "right"):
        for report in query_reports(exponential_batches(3, 5), stream=name):
            controller.http.post(f"/v1/jobs/job/streams/{name}/reports", json=to_json_object(report))


def kinds(text: str) -> list[str]:
    return [document["kind"] for document in yaml.safe_load_all(text)]


def events(controller: Controller) -> int:
    with controller.service.database.read() as session:
        return len(session.scalars(select(EventRow.id)).all())


def test_a_folder_is_applied_and_a_second_time_changes_nothing(
    controller: Controller, tidemark: Tidemark
) -> None:
    report_sides(controller)
    write("wanted/a.yaml", join("left", "right"), slo("left"), slo("right", "0.99"))
    write("wanted/b.yml", policy("left", mode="OnRestart", max_bound_ms=600_000))
    Path("wanted/README.md").write_text("not a document", encoding="utf-8")
    lines = said(tidemark("apply", "-f", "wanted"))
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == [
        "created SLO job/left (wanted/a.yaml, document 2)",
        "created SLO job/right (wanted/a.yaml, document 3)",
        "created Policy job/left (wanted/b.yml, document 1)",
        "created Join job/pairs (wanted/a.yaml, document 1)",
        "4 created, 0 unchanged",
        "next: tidemark doctor job",
    ]
    assert lines[1] == "  + target_ppm: 995000"
    assert lines[2].startswith("  published: the job keeps its own bound")
    assert lines[lines.index(heads[2]) + 1 :][:4] == [
        '  - mode: "Off"',
        '  + mode: "OnRestart"',
        "  - max_bound_ms: null",
        "  + max_bound_ms: 600000",
    ]
    before = events(controller)
    assert said(tidemark("apply", "-f", "wanted")) == ["4 unchanged"]
    assert said(tidemark("apply", "-f", "wanted", "--prune", "--dry-run", "--exit-code")) == ["4 unchanged"]
    assert events(controller) == before
    (event,) = [
        one
        for one in controller.http.get("/v1/events").json()["events"]
        if (one["kind"], one["stream"]) == ("SloSet", "right")
    ]
    assert event["reason"] == "tidemark apply: wanted/a.yaml, document 3"


def test_what_is_exported_is_applied_without_a_change(controller: Controller, tidemark: Tidemark) -> None:
    write("a.yaml", slo("one", **{"tidemark/state_cap_rows": "9"}), slo("two"), policy("two", margin_ppm=7))
    said(tidemark("apply", "-f", "a.yaml"))
    assert controller.http.post("/v1/jobs/job/streams/two:pause", json={"reason": "x"}).is_success
    text = tidemark("export").stdout
    assert kinds(text) == ["Service", "SLI", "SLO", "SLI", "SLO", "Policy"]
    assert said(tidemark("apply", "-f", "-", "--prune", text=text)) == ["3 unchanged"]
    assert kinds(tidemark("export", "job", "one").stdout) == ["Service", "SLI", "SLO"]
    assert "there is no job 'other'; there is only job" in tidemark("export", "other").stderr


def test_a_dry_run_shows_the_difference_and_writes_nothing(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    before = events(controller)
    write("a.yaml", slo("stream"), policy("stream", mode="Restart"))
    lines = said(tidemark("apply", "-f", "a.yaml", "--dry-run"))
    assert lines[:3] == [
        "would change SLO job/stream (a.yaml, document 1)",
        "  - target_ppm: 990000",
        "  + target_ppm: 995000",
    ]
    assert lines[-1] == "1 would create, 1 would change, 0 unchanged"
    said(tidemark("apply", "-f", "a.yaml", "--dry-run", "--exit-code"), 1)
    changes = json.loads("\n".join(said(tidemark("apply", "-f", "a.yaml", "--dry-run", "--json"))))["changes"]
    assert [(one["action"], one["kind"]) for one in changes] == [("change", "SLO"), ("create", "Policy")]
    assert events(controller) == before
    assert controller.get("/slo").json()["target_ppm"] == 990_000


def test_one_wrong_file_changes_nothing_and_every_mistake_is_named(
    controller: Controller, tidemark: Tidemark
) -> None:
    write("wanted/a.yaml", slo("stream"))
    write("wanted/b.yaml", policy("stream", mode="Restrat"), policy("other", margin_ppm="7"))
    for options in ([], ["--validate-only"]):
        done = tidemark("apply", "-f", "wanted", *options)
        assert (done.exit_code, done.stdout) == (2, "")
        assert [line.partition(": ")[2].partition(": /")[0] for line in done.stderr.splitlines()] == [
            "wanted/b.yaml, document 1",
            "wanted/b.yaml, document 2",
        ]
    assert controller.get("/slo").status_code == 404
    assert "there is no document" in tidemark("apply", "-f", "-", text="---\n").stderr
    assert "nowhere.yaml: No such file or directory" in tidemark("apply", "-f", "nowhere.yaml").stderr


def test_a_file_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "deep.yaml"
    file.write_text("[" * 20_000)
    done = CliRunner().invoke(app, ["apply", "--validate-only", "-f", str(file)])
    assert done.exit_code == 2
    assert done.stderr == f"tidemark: {file}: it is nested too deeply\n"


def test_what_an_slo_says_for_other_tools_alone_is_told_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    document = slo("stream")
    document["spec"]["alertPolicies"] = [{"alertPolicyRef": "page"}]
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = CliRunner().invoke(app, ["apply", "-f", str(path), "--validate-only"])
    assert (done.exit_code, done.stdout) == (0, "1 document can be applied\n")
    assert "a.yaml, document 1: /spec/alertPolicies is not read" in done.stderr


def test_files_are_validated_without_a_controller(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([slo("stream"), policy("stream")]), encoding="utf-8")
    nowhere = {"TIDEMARK_URL": "http://127.0.0.1:1"}
    done = CliRunner().invoke(app, ["apply", "-f", str(path), "--validate-only"], env=nowhere)
    assert said(done) == ["2 documents can be applied"]


def test_what_the_controller_would_reject_is_found_before_the_first_write(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    token = make_token(controller, "operator", "job")
    other = slo("stream")
    other["metadata"]["annotations"]["tidemark/job"] = "other"
    write("a.yaml", slo("stream"), other)
    before = events(controller)
    done = tidemark("apply", "-f", "a.yaml", token=token)
    assert (done.exit_code, done.stdout) == (1, "")
    assert events(controller) == before


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([slo("left"), slo("right"), policy("left", mode="Live"), join("left", "right")], "in mode Live"),
        ([slo("left"), join("left", "right")], "'right' of join 'pairs' has no SLO"),
        ([slo("left", "0.9"), slo("right"), join("left", "right"), policy("right", gates=["none"])], "gate"),
    ],
)
def test_what_a_join_does_not_allow_is_found_before_the_first_write(
    controller: Controller, tidemark: Tidemark, documents: list[dict[str, Any]], said: str
) -> None:
    report_sides(controller)
    write("a.yaml", *documents)
    before = events(controller)
    done = tidemark("apply", "-f", "a.yaml")
    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
    assert events(controller) == before


def test_a_join_that_takes_the_place_of_another_needs_pruning(
    controller: Controller, tidemark: Tidemark
) -> None:
    write("a.yaml", slo("left"), slo("right"), join("left", "right"))
    said(tidemark("apply", "-f", "a.yaml"))
    before = events(controller)
    other = {**join("left", "right"), "spec": {**join("left", "right")["spec"], "join": "others"}}
    write("b.yaml", slo("left", "0.9"), slo("right"), other)
    done = tidemark("apply", "-f", "b.yaml")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is a side of join 'pairs' already" in done.stderr
    assert events(controller) == before
    lines = said(tidemark("apply", "-f", "b.yaml", "--prune"))
    assert lines[-2] == "1 created, 1 changed, 1 deleted, 1 unchanged"


def test_pruning_deletes_what_no_document_has_and_keeps_pauses_and_other_jobs(
    controller: Controller, tidemark: Tidemark
) -> None:
    report_sides(controller)
    write(
        "a.yaml",
        slo("left"),
        slo("right"),
        join("left", "right"),
        policy("left", margin_ppm=7),
        policy("right"),
    )
    said(tidemark("apply", "-f", "a.yaml"))
    assert controller.http.post("/v1/jobs/job/streams/left:pause", json={"reason": "x"}).is_success
    assert controller.http.put("/v1/jobs/other/streams/stream/slo", json={"target_ppm": 1}).is_success
    write("a.yaml", slo("left"))
    assert said(tidemark("apply", "-f", "a.yaml")) == ["1 unchanged"]
    lines = said(tidemark("apply", "-f", "a.yaml", "--prune"))
    assert [line for line in lines if not line.startswith(" ")] == [
        "deleted Join job/pairs",
        "changed Policy job/left",
        "deleted SLO job/right",
        "1 changed, 2 deleted, 1 unchanged",
        "next: tidemark doctor job",
    ]
    assert controller.http.get("/v1/jobs/job/streams/left/policy").json()["paused"] is True
    assert controller.http.get("/v1/jobs/other/streams/stream/slo").is_success
    assert said(tidemark("apply", "-f", "a.yaml", "--prune")) == ["1 unchanged"]


def test_a_mode_that_a_deleted_join_forbids_is_set_after_it(
    controller: Controller, tidemark: Tidemark
) -> None:
    report_sides(controller)
    write("a.yaml", slo("left"), slo("right"), join("left", "right"))
    said(tidemark("apply", "-f", "a.yaml"))
    write("a.yaml", slo("left"), slo("right"), policy("left", mode="Live"))
    lines = said(tidemark("apply", "-f", "a.yaml", "--prune"))
    assert lines[-2] == "1 created, 1 deleted, 2 unchanged"


def test_a_change_by_somebody_else_after_the_plan_is_not_overwritten(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    stale = SpecChange("change", "SLO", "job", "stream", {"target_ppm": 3}, {"target_ppm": 5}, "", '"7"')
    fresh = SpecChange("create", "SLO", "job", "stream", None, {"target_ppm": 5}, "", None)
    with served(controller.app) as url, Client(url) as client:
        for change in (stale, fresh):
            with pytest.raises(ChangedError):
                carry_out(client, change)
        with pytest.raises(RequestRejectedError):
            carry_out(client, SpecChange("create", "SLO", "job", "new", None, {}, "", None))
    assert controller.get("/slo").json()["target_ppm"] == 990_000


def test_a_failure_on_the_way_says_what_was_made(
    controller: Controller, tidemark: Tidemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(client: Client, change: SpecChange, **options: Any) -> dict[str, Any]:
        answer = carry_out(client, change, **options)
        # Somebody sets the next one as soon as the first was written.
        controller.http.put("/v1/jobs/job/streams/two/slo", json={"target_ppm": 5})
        return answer

    monkeypatch.setattr("tidemark.controller.tools.cli.apply.carry_out", once)
    write("a.yaml", slo("one"), slo("two"))
    done = tidemark("apply", "-f", "a.yaml")
    assert done.exit_code == 1
    assert "created SLO job/one (a.yaml, document 1)" in done.stdout
    assert "SLO job/two: " in done.stderr
    assert "1 of 2 changes were made" in done.stderr
    assert said(tidemark("apply", "-f", "a.yaml"))[-2] == "1 changed, 1 unchanged"
