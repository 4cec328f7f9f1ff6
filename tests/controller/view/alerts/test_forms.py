"""What a destination gets in the forms of Slack and of Grafana, from a notifier over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.base.alert_table import REPORTS_ABSENT
from tidemark.controller.view.alerts.forms import in_form
from tidemark.controller.view.alerts.rules import ActiveAlert, Alarm, Notification

from support.notified import notified, skew, tick
from support.webhook import Webhook, running_webhook
from support.whole_stream import run_partitions


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


def due(job: str, status: Any = "firing", **alarm: Any) -> Notification:
    labels = (("alertname", REPORTS_ABSENT.name), ("severity", "page"), ("spark_job", job), ("stream", "s"))
    active = ActiveAlert(REPORTS_ABSENT, labels, "5 min")
    return Notification(labels, status, Alarm(active=active, since_us=0, starts_us=1_000_000, **alarm))


@pytest.mark.slow
def test_slack_gets_a_line_with_a_link_when_an_alert_begins_and_when_it_ends(
    database_url: str, webhook: Webhook
) -> None:
    settings = {"notify_url": webhook.url, "notify_form": "slack", "public_url": "http://t:8642"}
    with notified(database_url, **settings) as controller:
        job = skew(controller)
        assert [tick(controller), tick(controller, 5)] == [0, 1]
        (message,) = webhook.messages
        (attachment,) = message["attachments"]
        assert message["text"] == "TidemarkPartitionSkewed fires"
        assert (attachment["color"], attachment["title_link"]) == (
            "warning",
            "http://t:8642/#/streams/job/stream",
        )
        assert attachment["title"] == "job/stream: Partition 2 slows job/stream down"
        assert attachment["text"].endswith("<http://t:8642/runbooks/TidemarkPartitionSkewed.md|Runbook>")
        # Mended: a horizon later nothing of it is left.
        controller.put("/slo", {"target_ppm": 990_000, "horizon_ms": 60_000})
        job.at_us = controller.clock.now_us
        run_partitions(job, 40)
        controller.snapshot()
        assert tick(controller) == 1
    assert webhook.messages[-1]["text"] == "TidemarkPartitionSkewed is over"
    assert webhook.messages[-1]["attachments"][0]["color"] == "good"


@pytest.mark.slow
def test_grafana_gets_a_mark_when_an_alert_begins_once_with_a_token(
    database_url: str, webhook: Webhook, tmp_path: Path
) -> None:
    file, token = tmp_path / "destinations.toml", tmp_path / "token"
    token.write_text("glsa_secret")
    file.write_text(f"[grafana]\nwebhook = '{webhook.url}'\nform = 'grafana'\ntoken_file = '{token}'\n")
    with notified(database_url, notify_file=file, notify_repeat_seconds=60) as controller:
        skew(controller)
        assert [tick(controller), tick(controller, 5), tick(controller, 5)] == [0, 1, 0]
        starts_us = controller.clock.now_us - 10 * 60_000_000
    (annotation,) = webhook.messages
    assert annotation["time"] // 60_000 >= starts_us // 60_000_000
    assert {"tidemark", "firing", "stream:stream", "severity:ticket"} <= set(annotation["tags"])
    assert annotation["text"].startswith("Partition 2 slows job/stream down\nhttp://")
    assert webhook.headers[0]["authorization"] == "Bearer glsa_secret"


def test_an_alert_that_is_over_is_the_time_in_which_it_fired() -> None:
    ((body, _),) = in_form("grafana", [due("job", "resolved", ended_us=61_000_000)], "r", "http://t")
    assert body is not None
    assert (body["time"], body["timeEnd"]) == (1_000, 61_000)


def test_names_are_neither_links_nor_mentions_in_slack_and_few_of_many_are_shown() -> None:
    ((body, some),) = in_form(
        "slack", [due(f"<!channel> & {number}") for number in range(25)], "r", "http://t"
    )
    assert body is not None
    assert len(some) == 25
    assert len(body["attachments"]) == 20
    assert body["text"] == "TidemarkReportsAbsent fires; 5 more: http://t"
    assert body["attachments"][0]["title"].startswith("&lt;!channel&gt; &amp; 0/s: ")
