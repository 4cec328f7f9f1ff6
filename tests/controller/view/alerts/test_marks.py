"""Changes of streams as annotations of Grafana, from a notifier over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.controller_app import Controller
from support.notified import MINUTE_US, notified, tick
from support.policies import at_once
from support.rolled_job import RolledJob
from support.settled import LOOSE
from support.webhook import Webhook, running_webhook

pytestmark = pytest.mark.slow


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


def grafana(webhook: Webhook) -> dict[str, str]:
    return {"notify_url": webhook.url, "notify_form": "grafana", "public_url": "http://t:8642"}


def kinds(webhook: Webhook) -> list[str]:
    return [
        tag.partition(":")[2]
        for message in webhook.messages
        for tag in message["tags"]
        if tag.startswith("kind:")
    ]


def published(controller: Controller, **policy: Any) -> RolledJob:
    """Return a job whose first bound is published as its policy allows it."""
    job = RolledJob(controller, bound_ms=120_000)
    job.at_us = controller.clock.now_us
    job.put("slo", LOOSE)
    job.put("policy", at_once(labels={"team": "payments"}, **policy))
    job.run(40, 30.0, tick=False)
    controller.tick()
    return job


def test_a_bound_a_rollback_and_a_pin_are_marked_once_with_job_and_stream_as_tags(
    database_url: str, webhook: Webhook
) -> None:
    with notified(database_url, **grafana(webhook)) as controller:
        job = published(controller, freeze_windows=["daily"])
        assert tick(controller) == 1
        job.put("policy", at_once(labels={"team": "payments"}))
        controller.tick()
        assert tick(controller) == 1
        published_ms = controller.clock.now_us // 1_000
        controller.clock.now_us += MINUTE_US
        job.act(f"/rollouts/{job.rollout()['id']}:rollback", "too risky")
        assert controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-7"}).is_success
        assert controller.http.delete(f"{job.pin_url}&reason=over").is_success
        assert [tick(controller), tick(controller, 5)] == [4, 0]
    held, bound, rolled_back, back, pinned, unpinned = webhook.messages
    assert kinds(webhook) == [
        "RolloutHeld",
        "BoundPublished",
        "RolloutRolledBack",
        "BoundPublished",
        "PinSet",
        "PinRemoved",
    ]
    assert held["text"].startswith("Rollout 1 is recommended: held: nothing is narrowed in the freeze until ")
    assert bound["text"].startswith("Bound published, the job's own -> 9.9 s: ")
    assert bound["text"].endswith("\nhttp://t:8642/#/streams/job/stream")
    assert set(bound["tags"]) == {
        *("tidemark", "change", "kind:BoundPublished"),
        *("spark_job:job", "stream:stream", "team:payments"),
    }
    assert (bound["time"], "timeEnd" in bound) == (published_ms, False)
    assert (rolled_back["time"], rolled_back["timeEnd"]) == (published_ms, published_ms + 60_000)
    assert rolled_back["text"].startswith("Rollout 1: rolled back: too risky (by loopback)\n")
    assert back["text"].startswith("Bound published, 9.9 s -> the job's own: ")
    assert pinned["text"].startswith("Pinned by the pin on stream 'stream' of job 'job': INC-7 (by loopback)")
    assert unpinned["text"].startswith("Pin removed: over; it was set by the pin on ")


def test_changes_that_could_not_be_marked_are_after_a_restart_and_none_is_marked_twice(
    database_url: str, webhook: Webhook
) -> None:
    with notified(database_url, **grafana(webhook)) as controller:
        job = published(controller)
        assert tick(controller) == 1
        webhook.answers = [400]
        assert controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-7"}).is_success
        assert tick(controller) == 0
        now_us = controller.clock.now_us
    with notified(database_url, **grafana(webhook)) as controller:
        controller.clock.now_us = now_us
        assert [tick(controller, 1), tick(controller, 1)] == [3, 0]
    assert kinds(webhook) == ["BoundPublished", "PinSet", "BoundPublished", "RolloutHeld"]


def test_a_destination_gets_the_changes_of_its_own_streams_whatever_it_asks_of_alerts(
    database_url: str, webhook: Webhook, tmp_path: Path
) -> None:
    file = tmp_path / "destinations.toml"
    file.write_text(
        "".join(
            f"[{team}]\nwebhook = '{webhook.url}'\nform = 'grafana'\n"
            f"match = {{team = '{team}', severity = 'page'}}\n"
            for team in ("payments", "search")
        )
    )
    with notified(database_url, notify_file=file) as controller:
        published(controller)
        assert tick(controller) == 1
    assert kinds(webhook) == ["BoundPublished"]
