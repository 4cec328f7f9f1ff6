"""Replicas in a Kubernetes cluster are replaced, killed and moved while jobs report: nothing is lost or doubled.

Helm, the API and its controllers are real, and so are PostgreSQL and the processes of the pods; the node is a stand-in.
"""

from __future__ import annotations

import base64
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from sqlalchemy import create_engine, text

from tidemark.controller.base.db.database import Database
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.sender import Sender

from support.chart import CHART
from support.cluster import Cluster, running_cluster
from support.cluster_node import Node
from support.cluster_pod import Image
from support.cluster_programs import NEWEST
from support.empty_store import bare_postgres
from support.faults import Survived
from support.patience import PATIENCE_S, until
from support.replicas import next_release
from support.reports import exponential_batches, query_reports
from support.tokens import bearer
from support.totals import compared_totals, totals, totals_of
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.soak]

NAMESPACE, SERVICE = "tidemark", "tidemark:8642"
STREAMS = 4
REPORTS = 4_000
"""Reports that are ready for each stream: more than are sent."""
REPORT_S = 0.25
"""Time between two reports of a stream, in seconds."""
LEASE_S = 15
"""The length of a lease by default, in seconds."""
QUIET, TICKS = 4, 3
"""Decisions of a stream before anything happens, and ticks that may come on top of a lease, each as long as the longest
of those: the one under way in which a lease is taken, and the first two of a stream that is new to a replica.
"""

SLO = """apiVersion: openslo/v1
kind: SLO
metadata:
  name: job-{stream}
  annotations: {{tidemark/job: job, tidemark/stream: {stream}}}
spec:
  service: job
  indicatorRef: job-{stream}
  budgetingMethod: Occurrences
  timeWindow: [{{duration: 30d, isRolling: true}}]
  objectives: [{{displayName: completeness, target: 0.9999}}]
"""
"""A target that the reports miss: such a stream is decided in every tick."""


@dataclass
class Feed:
    """Sends the reports of streams as drivers do, and sees when each stream was decided."""

    drivers: list[tuple[Sender, list[Report]]]
    database: Callable[[], dict[int, int]]
    """Returns when each stream was decided last, in microseconds."""
    sent: int = 0
    """Reports of each stream handed to its sender."""
    decided: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Send in the background; at the end everything has been taken."""
        over = threading.Event()
        thread = threading.Thread(target=self._send, args=(over,), daemon=True)
        self.decided.clear()
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        assert all(sender.flush(PATIENCE_S) for sender, _ in self.drivers)

    def _send(self, over: threading.Event) -> None:
        while not over.wait(REPORT_S):
            for sender, reports in self.drivers:
                sender.report(reports[self.sent])
            self.sent += 1
            for stream, moment in self.database().items():
                self.decided[stream].add(moment)

    def decisions(self) -> dict[int, int]:
        """Return how many decisions of each stream were seen."""
        return {stream: len(each) for stream, each in self.decided.copy().items()}

    def decided_since(self, before: dict[int, int], times: int = 1) -> bool:
        """Return whether every stream was decided more than that many times since then."""
        now = self.decisions()
        return len(now) == STREAMS and all(now[stream] > before.get(stream, 0) + times for stream in now)

    def longest_gap_s(self) -> float:
        """Return the longest time between two decisions of a stream, in seconds."""
        moments = [sorted(each) for each in self.decided.copy().values()]
        return max(b - a for each in moments for a, b in pairwise(each)) / 1e6


def secret(cluster: Cluster, key: str) -> str:
    found = cluster.done(
        "get", "secret", "tidemark-tokens", "--namespace", NAMESPACE, "--output", f"jsonpath={{.data.{key}}}"
    )
    return base64.b64decode(found).decode()


def ready(cluster: Cluster) -> list[str]:
    """Return the pods of the Deployment that serve."""
    return [
        pod["metadata"]["name"]
        for pod in cluster.objects("pods", NAMESPACE)
        if "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"]["labels"].get("app.kubernetes.io/name") == "tidemark"
        and ("Ready", "True") in {(one["type"], one["status"]) for one in pod["status"].get("conditions", [])}
    ]


def test_no_report_is_lost_while_replicas_are_replaced_killed_moved_and_rolled_back(
    postgres_url: str, tmp_path: Path, survived: Survived
) -> None:
    url = bare_postgres(postgres_url)
    release = next_release(tmp_path / "next")
    values = tmp_path / "values.yaml"
    slos = tmp_path / "job.yaml"
    slos.write_text(
        "---\n".join(SLO.format(stream=f"s{number}") for number in range(STREAMS)), encoding="utf-8"
    )
    values.write_text(
        "{replicaCount: 2, database: {existingSecret: tidemark-database}, settings: {tick_seconds: 0.5}}\n",
        encoding="utf-8",
    )
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(tmp_path, NEWEST))
        cluster.namespace(NAMESPACE)
        cluster.done(
            *("create", "secret", "generic", "tidemark-database", "--namespace", NAMESPACE),
            f"--from-literal=url={url}",
        )
        serve = ("tidemark", "serve")
        images = {
            "tidemark:0.1.0": Image(default=serve),
            "tidemark:0.2.0": Image({"PYTHONPATH": str(release)}, default=serve),
        }
        node = Node(cluster, tmp_path / "pods", NAMESPACE, images)
        stack.enter_context(node.running(SERVICE))

        def helm(*words: str | Path) -> None:
            ended = cluster.helm(*words, "--namespace", NAMESPACE)
            assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr + node.logs()

        def upgrade(*words: str | Path) -> None:
            helm("upgrade", "tidemark", CHART, "--values", values, "--wait", *words)

        def settled() -> None:
            cluster.done("rollout", "status", "deployment/tidemark", "--namespace", NAMESPACE)

        def kill() -> None:
            victim = ready(cluster)[0]
            cluster.kubectl("delete", "pod", victim, "--namespace", NAMESPACE, "--force", "--grace-period=0")
            until(lambda: victim in node.killed and len(ready(cluster)) == 2, "another pod", seen=node.logs)

        def drain() -> None:
            for name in ("node-a", "node-b"):
                ended = cluster.kubectl("drain", name, "--delete-emptydir-data", "--force")
                assert ended.returncode == 0, ended.stderr
                settled()
                cluster.done("uncordon", name)

        def roll_back() -> None:
            # An older release over a migrated store is never ready, so that the newer pods stay and serve.
            ended = cluster.helm(
                "rollback", "tidemark", "2", "--namespace", NAMESPACE, "--wait", "--timeout", "30s"
            )
            assert ended.returncode != 0
            assert len(ready(cluster)) == 2
            upgrade("--set", "image.tag=0.2.0")

        # The Job of the chart applies the SLOs as soon as a pod serves; `helm test` asks that pod.
        helm(
            *("install", "tidemark", CHART, "--values", values, "--wait"),
            *("--set-file", f"specifications.files.job\\.yaml={slos}"),
        )
        helm("test", "tidemark", "--timeout", "1m")
        service = node.services[f"http://{SERVICE}"]
        made = httpx.post(
            f"{service}/v1/tokens",
            json={"name": "jobs", "role": "job", "jobs": ["job"]},
            headers=bearer(secret(cluster, "admin")),
            timeout=PATIENCE_S,
        )
        assert made.status_code == 201, made.text
        token = tmp_path / "job.token"
        token.write_text(made.json()["token"], encoding="utf-8")

        engine = create_engine(url)
        stack.callback(engine.dispose)

        def decided() -> dict[int, int]:
            with engine.connect() as connection:
                rows = connection.execute(text("SELECT stream_id, decided_us FROM recommendations"))
                return {row.stream_id: row.decided_us for row in rows}

        def stored() -> int:
            with engine.connect() as connection:
                return int(
                    connection.execute(text("SELECT coalesce(sum(reports), 0) FROM streams")).scalar_one()
                )

        drivers = []
        for number in range(STREAMS):
            batches = exponential_batches(REPORTS, 30, seed=number)
            sender = Sender(ControllerClient(service, token), longest_wait_s=1)
            stack.enter_context(closing(sender))
            drivers.append((sender, query_reports(batches, stream=f"s{number}", bound_ms=500)))
        feed = Feed(drivers, decided)
        table = [
            "| what | reports sent | taken | longest time between two decisions before it | and with it |",
            "| --- | --- | --- | --- | --- |",
        ]
        allowed_s: dict[str, tuple[float, float]] = {}
        for what, do in (
            ("settings change", partial(upgrade, "--set", "settings.max_open_polls=1000")),
            ("next release, with a migration", partial(upgrade, "--set", "image.tag=0.2.0")),
            ("rollback behind the migration, and on", roll_back),
            ("both nodes drained", drain),
            ("pod killed", kill),
        ):
            before, taken = feed.sent, stored()
            with feed.on():
                until(partial(feed.decided_since, {}, QUIET), f"decisions before: {what}", seen=node.logs)
                quiet_s = feed.longest_gap_s()
                do()
                settled()
                seen = feed.decisions()
                until(partial(feed.decided_since, seen), f"decisions after: {what}", seen=node.logs)
            sent = (feed.sent - before) * STREAMS
            gap_s = feed.longest_gap_s()
            table.append(f"| {what} | {sent} | {stored() - taken} | {quiet_s:.1f} s | {gap_s:.1f} s |")
            allowed_s[what] = gap_s, LEASE_S + TICKS * quiet_s
        killed = list(node.killed)
        assert not any(sender.dropped for sender, _ in drivers)

        database = Database(url)
        with database.read() as session:
            database.release_version = session.scalar(text("SELECT version_num FROM alembic_version"))
        found = totals(database)
        wanted = totals_of((each for _, reports in drivers for each in reports[: feed.sent]), tmp_path)
        database.close()
        (ROOT / "build").mkdir(exist_ok=True)
        (ROOT / "build" / "cluster.md").write_text("\n".join(table) + "\n", encoding="utf-8")
        survived(
            "replicas in Kubernetes are replaced, killed and drained",
            times=5,
            **compared_totals(found, wanted),
        )
        assert found == wanted
        assert len(killed) == 1, "only the pod that was killed did not end within its grace"
        assert all(gap_s <= most_s for gap_s, most_s in allowed_s.values()), f"{allowed_s} {node.logs()}"
