"""The services of deploy/compose that are ours, as their containers would run them: on real Kafka and real Spark."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_jars import connector_jars
from tidemark.spark_jobs.spark.java import ensure_java

from support.compose import COMPOSE, command_of, compose_file
from support.kafka import or_skip
from support.patience import PATIENCE_S, until
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.soak]

OWN = Path(sys.executable).parent


@contextmanager
def running(
    command: list[str], folder: Path, name: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command, its output in a file, and end it and all that it started."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PATH": f"{OWN}:{os.environ['PATH']}", **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def port_of(log: Path) -> int:
    found = until(
        lambda: re.search(r"listening on http://\S+:(\d+),", log.read_text(errors="replace")),
        "the controller's address",
        seen=lambda: log.read_text(errors="replace"),
    )
    assert found is not None
    return int(found[1])


def test_feed_job_and_objectives_run_as_their_commands_say(kafka: KafkaBroker, tmp_path: Path) -> None:
    or_skip(connector_jars)
    java = ensure_java()
    subprocess.run(
        ["sh", COMPOSE / "secrets.sh", tmp_path / "s"],
        env={**os.environ, "PATH": f"{OWN}:{os.environ['PATH']}"},
        check=True,
    )
    kafka.create_topic("events", 16)
    kafka.create_topic("counts")
    secrets = tmp_path / "s" / "controller"
    with ExitStack() as stack:
        controller = {
            "TIDEMARK_DATABASE_URL": f"sqlite:///{tmp_path / 't.db'}",
            "TIDEMARK_FIRST_TOKENS": str(secrets / "tokens"),
        }
        serve = ["tidemark", "serve", "--port", "0"]
        stack.enter_context(running(serve, tmp_path, "controller", **controller))
        url = f"http://127.0.0.1:{port_of(tmp_path / 'controller.log')}"

        def inside(line: str) -> str:
            for theirs, ours in {
                "http://controller:8642": url,
                "kafka:9092": kafka.bootstrap_servers,
                "/run/tidemark/tokens": str(secrets / "tokens"),
                "/run/tidemark/token": str(tmp_path / "s" / "job" / "token"),
                "/opt/job/kafka_counts.py": str(
                    ROOT / "spark_jobs" / "demo" / "examples" / "kafka_counts.py"
                ),
                "/opt/job/feed.py": str(COMPOSE / "feed.py"),
                "/state/": f"{tmp_path}/state/",
            }.items():
                line = re.sub(rf"(?<![\w/]){re.escape(theirs)}", ours, line)
            return line

        wanted = subprocess.run(
            ["sh", "-ec", inside(command_of("slo"))],
            env={**os.environ, "PATH": f"{OWN}:{os.environ['PATH']}", "TIDEMARK_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert wanted.returncode == 0, wanted.stderr
        feed = shlex.split(inside(shlex.join(compose_file()["services"]["feed"]["command"])))
        feeding = stack.enter_context(running(feed, tmp_path, "feed"))
        job = ["sh", "-ec", inside(command_of("job"))]
        counting = stack.enter_context(
            running(job, tmp_path, "job", JAVA_HOME=str(java.home), SPARK_LOCAL_IP="127.0.0.1")
        )

        token = (secrets / "tokens" / "prometheus").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:

            def status() -> dict[str, Any]:
                assert feeding.poll() is None, (tmp_path / "feed.log").read_text()
                assert counting.poll() is None, (tmp_path / "job.log").read_text()[-4_000:]
                answer: dict[str, Any] = client.get("/v1/jobs/demo/streams/events").json()
                return answer

            def decided() -> bool:
                answer = status()
                return (answer.get("evidence") or {}).get("rows", 0) > 1_000 and bool(answer["recommended"])

            until(decided, "a decision on a thousand rows", seen=status, pause_s=1)
            assert status()["evidence"]["partitions"] == 16
            metrics = client.get("/metrics").text
            assert 'stream="events"' in metrics
