"""The shipped rules in a real Prometheus and Alertmanager, on a running controller: what should fire fires, and ends.

Lengths of time are a thirtieth of the shipped ones (``support.prometheus.scaled``, which has a test of its own), so
that an hour passes in two minutes. A busy machine may take longer than that: that nothing else fires is shown by
``tests/deploy/test_rules.py``, which keeps the time itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tidemark.controller.view.alerts.message import fingerprint_of

from support.paced_job import PacedJob
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.processes import serving
from support.prometheus import (
    RULES,
    program,
    running_alertmanager,
    running_prometheus,
    scaled,
)
from support.tree import ROOT
from support.webhook import Webhook, running_webhook

pytestmark = [pytest.mark.slow, pytest.mark.long]

FACTOR = 1 / 30

SKEWED, STOPPED, BURST, WAITING = "skewed", "stopped", "burst", "waiting"


def alertmanager_config(url: str) -> dict[str, Any]:
    """Return the shipped example with the test's receiver, notified at once."""
    config: dict[str, Any] = yaml.safe_load(
        (ROOT / "deploy/prometheus/alertmanager.yml").read_text(encoding="utf-8")
    )
    for route in (config["route"], *config["route"]["routes"]):
        route.update(group_wait="1s", group_interval="1s")
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": url, "send_resolved": True}]
    return config


@contextmanager
def watched(tmp_path: Path) -> Iterator[tuple[str, str, Webhook]]:
    """Run all of it; give the addresses of the controller and of Prometheus, and the receiver."""
    for name in ("prometheus", "prometheus-alertmanager"):
        program(name)
    with (
        serving(tmp_path, tick_seconds=1) as (_, client),
        running_webhook() as webhook,
        running_alertmanager(tmp_path / "alertmanager", alertmanager_config(webhook.url)) as alertmanager,
    ):
        controller = str(client.base_url)
        config = {
            "global": {"scrape_interval": "4s", "scrape_timeout": "4s", "evaluation_interval": "2s"},
            "scrape_configs": [
                {
                    "job_name": "tidemark",
                    "static_configs": [{"targets": [controller.removeprefix("http://")]}],
                }
            ],
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
            },
        }
        rule_files = {
            path.name: scaled(path.read_text(encoding="utf-8"), FACTOR) for path in RULES.glob("*.yaml")
        }
        with running_prometheus(tmp_path / "prometheus", config, rule_files) as prometheus:
            yield controller, prometheus, webhook


def set_slo(job: PacedJob) -> None:
    # The horizon is short, so that a partition that is mended is not held against it for long: it begins with a whole
    # minute, from 20 to 80 seconds ago.
    body = {"target_ppm": 990_000, "horizon_ms": 20_000}
    httpx.put(job.path + "/slo", json=body, timeout=PATIENCE_S).raise_for_status()


def test_only_what_is_wrong_fires_and_it_resolves_when_it_is_mended(tmp_path: Path) -> None:
    with watched(tmp_path) as (controller, prometheus, webhook):
        with (
            PacedJob(controller, SKEWED, bound_ms=300_000) as skewed,
            PacedJob(controller, STOPPED, bound_ms=10_000) as stopped,
            PacedJob(controller, BURST, bound_ms=10_000) as burst,
            PacedJob(controller, WAITING, bound_ms=60_000) as waiting,
        ):
            # Narrower would do, and a person has to approve it.
            policy = at_once(approval="all")
            httpx.put(waiting.path + "/policy", json=policy, timeout=PATIENCE_S).raise_for_status()
            for job in (skewed, stopped, burst, waiting):
                set_slo(job)
                until(lambda: _reports(job) >= 5, "some reports")  # noqa: B023 - at once

            skewed.slow_s[2] = 60
            stopped.stopped = True
            burst.late_share = 0.6
            _wait(webhook, "firing", "TidemarkReportsAbsent", STOPPED)
            _wait(webhook, "firing", "TidemarkCompletenessBudgetBurn", BURST, "page")
            _wait(webhook, "firing", "TidemarkPartitionSkewed", SKEWED)
            _wait(webhook, "firing", "TidemarkApprovalPending", WAITING)
            metrics = httpx.get(controller + "/metrics", timeout=PATIENCE_S).text

            (rollout,) = httpx.get(waiting.path + "/rollouts", timeout=PATIENCE_S).json()["rollouts"]
            answer = httpx.post(
                f"{waiting.path}/rollouts/{rollout['id']}:approve",
                json={"reason": "it looks right"},
                timeout=PATIENCE_S,
            )
            answer.raise_for_status()
            skewed.slow_s.clear()
            stopped.stopped = False
            burst.late_share = 0
            _wait(webhook, "resolved", "TidemarkReportsAbsent", STOPPED)
            _wait(webhook, "resolved", "TidemarkCompletenessBudgetBurn", BURST)
            _wait(webhook, "resolved", "TidemarkPartitionSkewed", SKEWED)
            _wait(webhook, "resolved", "TidemarkApprovalPending", WAITING)

        fired = {
            (name, labels["severity"], labels["spark_job"], labels.get("partition"))
            for status, name, labels in webhook.alerts()
            if status == "firing"
        }
        assert {
            ("TidemarkPartitionSkewed", "ticket", SKEWED, "2"),
            ("TidemarkReportsAbsent", "ticket", STOPPED, None),
            ("TidemarkCompletenessBudgetBurn", "page", BURST, None),
            ("TidemarkApprovalPending", "ticket", WAITING, None),
        } <= fired
        # The notifier makes the same fingerprint, so that a receiver of both can match them.
        for message in webhook.messages:
            for alert in message["alerts"]:
                assert alert["fingerprint"] == fingerprint_of(tuple(alert["labels"].items()))
        assert 'tidemark_partition_skewed{partition="2",spark_job="skewed",stream="stream"} 1' in metrics
        # One scrape that a busy machine lets take four seconds says "down" until the next.
        until(lambda: _healths(prometheus) == ["up"], "a scrape that succeeds")
        body = httpx.get(prometheus + "/api/v1/rules", timeout=PATIENCE_S).json()["data"]["groups"]
        assert {rule["health"] for group in body for rule in group["rules"]} == {"ok"}


def _reports(job: PacedJob) -> int:
    """Return how many reports of the job the controller has."""
    evidence = httpx.get(job.path, timeout=PATIENCE_S).json().get("evidence") or {}
    return int(evidence.get("batches", 0))


def _healths(prometheus: str) -> list[str]:
    """Return how the last scrape of each target went."""
    targets = httpx.get(prometheus + "/api/v1/targets", timeout=PATIENCE_S).json()["data"]["activeTargets"]
    return [target["health"] for target in targets]


def _wait(webhook: Webhook, status: str, name: str, job: str, severity: str | None = None) -> None:
    begun = time.monotonic()
    webhook.wait_for(
        lambda: any(
            (body, alert, labels["spark_job"]) == (status, name, job)
            and severity in {None, labels["severity"]}
            for body, alert, labels in webhook.alerts()
            if "spark_job" in labels
        ),
        f"{status} {name} of {job}",
    )
    print(f"{status} {name} of {job}: {time.monotonic() - begun:.0f} s")
