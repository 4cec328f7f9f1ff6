"""``tidemark spark-conf`` and what the doctor says of a conf, and of all jobs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.fleet_conf import read_defaults
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served

CONF = {
    "spark.tidemark.controller.url": "http://controller:8642",
    "spark.tidemark.python": "/opt/venv/bin/python",
    "spark.tidemark.token.file": "/run/secrets/tidemark",
    "spark.tidemark.mode": "a b",
}
JAR = "local:///opt/tidemark-spark.jar"


def printed(form: str) -> str:
    arguments = ["--for", form, "--jar", JAR, "--url", CONF["spark.tidemark.controller.url"]]
    arguments += ["--python", "/opt/venv/bin/python", "--token-file", "/run/secrets/tidemark"]
    result = CliRunner().invoke(app, ["spark-conf", *arguments, "--conf", "spark.tidemark.mode=a b"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_form_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(printed("defaults"))
    assert read_defaults(file) == {"spark.jars": JAR, **CONF}

    _, _, jar, *options, _ = shlex.split(printed("submit").replace("\\\n", ""))
    assert jar == JAR
    assert dict(each.split("=", 1) for each in options if each != "--conf") == CONF

    spec = yaml.safe_load(printed("operator"))["spec"]
    assert spec == {"deps": {"jars": [JAR]}, "sparkConf": CONF}

    *_, config = printed("databricks").partition("# Its Spark config:\n")
    file.write_text(config)
    assert read_defaults(file) == CONF


def test_only_conf_of_tidemark_is_taken() -> None:
    result = CliRunner().invoke(app, ["spark-conf", "--jar", JAR, "--conf", "spark.executor.memory=1g"])
    assert result.exit_code == 2
    assert "write it as spark.tidemark.KEY=VALUE" in result.stderr


@pytest.fixture
def url(controller: Controller) -> Iterator[str]:
    with served(controller.app) as address:
        yield address


def findings(*arguments: str, exit_code: int) -> dict[str, tuple[str, str | None]]:
    """Return by what the doctor says its level and the next step."""
    result = CliRunner().invoke(app, ["doctor", *arguments, "--json"], env={"TIDEMARK_TOKEN": ""})
    assert result.exit_code == exit_code, result.output
    found = json.loads(result.stdout)["findings"]
    return {f"{each['job'] or ''}: {each['text']}": (each["level"], each["next"]) for each in found}


@pytest.mark.slow
def test_a_conf_that_works_is_fine_and_each_lack_has_its_next_step(url: str, tmp_path: Path) -> None:
    file, jar = tmp_path / "spark-defaults.conf", tmp_path / "tidemark-spark_2.13-0.1.0.jar"
    jar.touch()
    file.write_text(
        f"# all jobs\nspark.jars={jar}\nspark.tidemark.controller.url {url}\nspark.tidemark.python = {sys.executable}\n"
    )
    assert {level for level, _ in findings("--conf", str(file), exit_code=0).values()} == {"ok"}

    file.write_text(
        "spark.jars s3://jars/other.jar\nspark.tidemark.controller.url http://127.0.0.1:9\nspark.tidemark.mood Off\n"
        f"spark.tidemark.python {tmp_path / 'none'}\nspark.tidemark.stream.clicks.mode Off\n"
    )
    said = findings("--conf", str(file), exit_code=1)
    text = "\n".join(f"{level} {what} -> {step}" for what, (level, step) in said.items())
    assert "missing : spark.jars has no tidemark-spark*.jar" in text
    assert (
        "warning : spark.tidemark.mood is no key of Tidemark, and has no effect -> write spark.tidemark.mode"
        in text
    )
    assert "does not run" in text
    assert "missing : jobs do not reach the controller" in text
    assert "stream.clicks" not in text


def test_of_all_jobs_it_says_which_are_watched_and_why_others_are_not(
    controller: Controller, url: str
) -> None:
    assert findings("--url", url, exit_code=1).keys() >= {": no job has reported yet"}

    def report(job: str, **changes: Any) -> None:
        (report,) = query_reports([[("0", START_US)]], job=job, **changes)
        path = f"/v1/jobs/{job}/streams/stream/reports"
        assert controller.http.post(path, json=to_json_object(report)).status_code == 201

    report("good")
    report("blind", contradiction="the plan cannot be read")
    answer = controller.http.put("/v1/jobs/absent/streams/clicks/slo", json={"target_ppm": 990_000})
    assert answer.is_success, answer.text
    controller.snapshot()
    said = findings("--url", url, exit_code=1)
    by_job = {what.split(":")[0]: (what, *rest) for what, rest in said.items()}
    assert by_job["good"][0].startswith("good: watched: 1 stream")
    assert by_job["blind"][0] == "blind: rows are not judged: stream, of 1 stream"
    assert by_job["absent"][0] == "absent: not watched: of 1 stream no report has come of clicks"
    assert "spark-submit" in str(by_job["absent"][2])
