"""The notifier against a real receiver: who is notified of what and when, over restarts, replicas and failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.base.alert_table import ALERTS, REPORTS_ABSENT
from tidemark.controller.base.settings import Settings, load_settings
from tidemark.controller.view.alerts.delivery import MessageLinks
from tidemark.controller.view.alerts.message import fingerprint_of, messages
from tidemark.controller.view.alerts.notifier import message_links
from tidemark.controller.view.alerts.rules import ActiveAlert, Alarm, Notification

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.notified import FIRING, MINUTE_US, RESOLVED, names, notified, skew, tick
from support.patience import until
from support.rolled_job import RolledJob
from support.soak import with_soak
from support.streams import SECOND
from support.tokens import make_token
from support.webhook import Webhook, running_webhook
from support.whole_stream import run_partitions


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def url(request: pytest.FixtureRequest) -> str:
    name = "database_url" if request.param == "sqlite" else "new_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


RETIRED = {"reason": "retired", "whileReporting": "true"}
ABSENT = ("firing", "TidemarkReportsAbsent")


@pytest.mark.parametrize(
    ("given", "runbooks", "address"),
    [
        ({}, "http://127.0.0.1:8642/runbooks", "http://127.0.0.1:8642"),
        ({"host": "::1", "port": 80}, "http://[::1]:80/runbooks", "http://[::1]:80"),
        ({"public_url": "https://t/x/"}, "https://t/x/runbooks", "https://t/x"),
        ({"public_url": "https://t", "runbooks_url": "https://r/"}, "https://r", "https://t"),
    ],
)
def test_links_are_whole_addresses(given: dict[str, Any], runbooks: str, address: str) -> None:
    assert message_links(Settings(**given)) == MessageLinks(runbooks=runbooks, address=address)


def test_the_link_to_the_page_leads_to_a_stream_whatever_it_is_called() -> None:
    active = ActiveAlert(REPORTS_ABSENT, (("spark_job", "a b/%"), ("stream", "c?")), "")
    alarm = Alarm(active=active, since_us=0, starts_us=0)
    ((message, _),) = messages([Notification(active.labels, "firing", alarm)], "r", "http://t")
    assert message["alerts"][0]["annotations"]["page_url"] == "http://t/#/streams/a%20b%2F%25/c%3F"


def test_every_runbook_is_served_to_everybody(controller: Controller) -> None:
    make_token(controller)
    for name in {alert.name for alert in ALERTS}:
        answer = controller.http.get(f"/runbooks/{name}.md", headers={"Authorization": ""})
        assert answer.text.startswith(f"# {name}\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    for name in ("TidemarkNothing.md", "__init__.py", "..%2F__init__.py"):
        assert controller.http.get(f"/runbooks/{name}", headers={"Authorization": ""}).status_code == 404


@pytest.mark.slow
@on_sqlite_alone("url")
def test_a_skewed_partition_and_its_end_are_notified_in_alertmanagers_form(
    url: str, webhook: Webhook
) -> None:
    with notified(
        url, notify_url=webhook.url, runbooks_url="https://example.org/runbooks/", public_url="http://t:8642"
    ) as controller:
        job = skew(controller)
        assert tick(controller) == 0
        assert tick(controller, 4) == 0
        assert tick(controller, 1) == 1
        (message,) = webhook.messages
        labels = {
            "alertname": "TidemarkPartitionSkewed",
            "severity": "ticket",
            "spark_job": "job",
            "stream": "stream",
            "partition": "2",
        }
        (alert,) = message["alerts"]
        assert {**message, "alerts": []} == {
            "version": "4",
            "groupKey": '{}:{alertname="TidemarkPartitionSkewed"}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "tidemark",
            "groupLabels": {"alertname": "TidemarkPartitionSkewed"},
            "commonLabels": labels,
            "commonAnnotations": alert["annotations"],
            "externalURL": "http://t:8642",
            "alerts": [],
        }
        assert alert["labels"] == labels
        assert alert["status"] == "firing"
        assert alert["annotations"]["summary"] == "Partition 2 slows job/stream down"
        assert (
            alert["annotations"]["runbook_url"] == "https://example.org/runbooks/TidemarkPartitionSkewed.md"
        )
        assert alert["annotations"]["page_url"] == "http://t:8642/#/streams/job/stream"
        assert alert["endsAt"] == "0001-01-01T00:00:00Z"
        assert alert["fingerprint"] == fingerprint_of(tuple(labels.items()))
        assert "tidemark_notifications_firing 1.0" in controller.http.get("/metrics").text
        # Mended: a horizon later nothing of it is left.
        controller.put("/slo", {"target_ppm": 990_000, "horizon_ms": 60_000})
        job.at_us = controller.clock.now_us
        run_partitions(job, 40)
        controller.snapshot()
        assert tick(controller) == 1
        assert names(webhook)[1:] == [RESOLVED]
        assert webhook.messages[-1]["status"] == "resolved"
        assert webhook.messages[-1]["alerts"][0]["startsAt"] == alert["startsAt"]
        assert [event["kind"] for event in job.events("AlertResolved")] == ["AlertResolved"]


@pytest.mark.slow
@on_sqlite_alone("url")
def test_a_restart_repeats_no_notification_and_still_sends_the_end(url: str, webhook: Webhook) -> None:
    with notified(url, notify_url=webhook.url) as controller:
        job = skew(controller)
        tick(controller)
        tick(controller, 5)
        now_us = controller.clock.now_us
    assert names(webhook) == [FIRING]
    with notified(url, notify_url=webhook.url) as controller:
        controller.clock.now_us = now_us
        controller.service.decider.leases.keep(now=True)
        assert tick(controller, 1) == 0
        assert names(webhook) == [FIRING]
        job.controller = controller
        job.at_us = controller.clock.now_us
        controller.put("/slo", {"target_ppm": 990_000, "horizon_ms": 60_000})
        run_partitions(job, 40)
        controller.snapshot()
        assert tick(controller) == 1
    assert names(webhook) == [FIRING, RESOLVED]


@pytest.mark.slow
def test_what_still_fires_is_notified_again_after_a_while_and_not_before(
    database_url: str, webhook: Webhook
) -> None:
    with notified(database_url, notify_url=webhook.url, notify_repeat_seconds=3_600) as controller:
        job = skew(controller)
        tick(controller)
        tick(controller, 5)
        for minutes in (30, 29):
            # The job goes on reporting, or its silence would be notified as well.
            job.at_us = controller.clock.now_us + minutes * MINUTE_US
            run_partitions(job, 1, slow=2)
            assert tick(controller) == 0
        job.at_us = controller.clock.now_us + 2 * MINUTE_US
        run_partitions(job, 1, slow=2)
        assert tick(controller) == 1
    assert names(webhook) == [FIRING, FIRING]


def _share(shards: int, *controllers: Controller) -> None:
    """Let them give signs of life until each holds so many."""
    keepers = [controller.service.decider.leases for controller in controllers]

    def shared() -> bool:
        for keeper in keepers:
            keeper.keep(now=True)
        return all(keeper.held == shards for keeper in keepers)

    until(shared, f"{shards} shards for each", pause_s=0)


@pytest.mark.slow
def test_of_two_replicas_one_notifies_and_the_other_continues_when_it_is_gone(
    url: str, webhook: Webhook
) -> None:
    # A lease longer than the test: a message is sent twice when its lease is lost meanwhile.
    with notified(url, notify_url=webhook.url, lease_seconds=3_600) as first:
        skew(first)
        tick(first)
        with notified(url, notify_url=webhook.url, lease_seconds=3_600) as second:
            second.clock.now_us = first.clock.now_us
            _share(32, first, second)
            for minutes in (0, 5, 1, 1):
                second.clock.now_us = first.clock.now_us + round(minutes * MINUTE_US)
                tick(first, minutes)
                tick(second)
            for _ in range(2):
                tick(second, 5)
                first.clock.now_us = second.clock.now_us
                tick(first)
            assert names(webhook).count(FIRING) == 1
            now_us = second.clock.now_us
        # The replica that is left knows what the other one has notified.
        _share(64, first)
        first.clock.now_us = now_us
        tick(first, 1)
        tick(first, 6)
        assert names(webhook).count(FIRING) == 1


@pytest.mark.slow
def test_a_stopped_job_is_notified_and_a_paused_stream_is_not(database_url: str, webhook: Webhook) -> None:
    with notified(database_url, notify_url=webhook.url) as controller:
        run_partitions(RolledJob(controller), 10)
        tick(controller, 6)
        assert tick(controller, 1) == 1
        assert names(webhook) == [ABSENT]
        controller.http.post("/v1/jobs/job/streams/stream:pause", json={"reason": "stopped on purpose"})
        assert tick(controller, 1) == 1
        assert names(webhook)[1:] == [("resolved", "TidemarkReportsAbsent")]


@pytest.mark.slow
def test_the_end_of_what_fired_is_notified_once_when_the_stream_is_deleted(
    database_url: str, webhook: Webhook
) -> None:
    with notified(database_url, notify_url=webhook.url) as controller:
        job = skew(controller)
        tick(controller)
        tick(controller, 5)
        webhook.answers.append(400)
        answer = controller.http.delete(job.path, params=RETIRED, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text
        assert tick(controller, 1) == 0
        assert tick(controller, 20) == 1
        assert tick(controller, 20) == 0
        assert names(webhook) == [FIRING, RESOLVED]
        events = controller.http.get("/v1/events", params={"kind": "AlertResolved"}).json()["events"]
        assert events == []


@pytest.mark.slow
def test_a_burst_of_late_rows_pages(url: str, webhook: Webhook) -> None:
    with notified(url, notify_url=webhook.url) as controller:
        controller.put("/slo", {"target_ppm": 990_000})
        job = RolledJob(controller, bound_ms=5_000)
        run_partitions(job, 20)
        assert tick(controller) == 0
        late = [("0", job.at_us - 300 * SECOND)] * 400
        for _ in range(6):
            job.report([*late, ("0", job.at_us)])
        controller.snapshot()
        tick(controller)
        tick(controller, 2.5)
        burns = [labels for _, name, labels in webhook.alerts() if name == "TidemarkCompletenessBudgetBurn"]
        assert [labels["severity"] for labels in burns] == ["page"]
        assert burns[0] == {
            "alertname": "TidemarkCompletenessBudgetBurn",
            "severity": "page",
            "sloth_severity": "page",
            "sloth_id": "job-stream",
            "sloth_service": "job",
            "sloth_slo": "stream",
            "spark_job": "job",
            "stream": "stream",
        }


@pytest.mark.slow
def test_a_receiver_that_is_too_busy_is_asked_again_and_one_that_refuses_is_left_alone_for_a_while(
    database_url: str, webhook: Webhook
) -> None:
    with notified(database_url, notify_url=webhook.url) as controller:
        skew(controller)
        tick(controller)
        webhook.answers[:] = [503, 429]
        assert tick(controller, 5) == 1
        assert len(webhook.headers) == 3
    assert names(webhook) == [FIRING]


@pytest.mark.slow
def test_a_rejected_message_is_counted_and_sent_later(database_url: str, webhook: Webhook) -> None:
    with notified(database_url, notify_url=webhook.url) as controller:
        skew(controller)
        tick(controller)
        webhook.answers[:] = [404]
        assert tick(controller, 5) == 0
        assert (
            'tidemark_notification_failures_total{destination="default"} 1.0'
            in controller.http.get("/metrics").text
        )
        # The pause has the length of the time between two turns.
        assert tick(controller, 1) == 0
        assert len(webhook.headers) == 1
        assert tick(controller, 15) == 2
        assert sorted(names(webhook)) == [FIRING, ABSENT]


@pytest.mark.slow
def test_the_token_is_read_for_each_message_and_never_logged(
    database_url: str, webhook: Webhook, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    with notified(database_url, notify_url=webhook.url, notify_token_file=token) as controller:
        skew(controller)
        tick(controller)
        assert tick(controller, 5) == 0
        assert f"token file {token}: No such file" in caplog.text
        token.write_text("first-secret\n")
        assert tick(controller, 16) == 1
        assert {headers["authorization"] for headers in webhook.headers} == {"Bearer first-secret"}
    assert "first-secret" not in caplog.text
    assert webhook.url not in caplog.text


@pytest.mark.slow
def test_the_thread_checks_by_itself_and_stops_with_the_controller(
    database_url: str, webhook: Webhook
) -> None:
    with Controller(database_url, notify_url=webhook.url, notify_seconds=0.1) as controller:
        job = RolledJob(controller)
        run_partitions(job, 3)
        controller.clock.now_us += 7 * MINUTE_US

        def was_notified() -> bool:
            # Time goes on between two turns of the thread, however seldom it gets the processor.
            controller.clock.now_us += MINUTE_US // 10
            return ABSENT in names(webhook)

        webhook.wait_for(was_notified, "the alert")
    assert controller.service.notifier is not None
    assert not controller.service.notifier._thread.alive


def test_without_an_address_there_is_no_notifier(controller: Controller) -> None:
    assert controller.service.notifier is None
    controller.put("/slo", {"target_ppm": 990_000})
    assert controller.status()["notified"] is None


def test_the_address_is_not_shown_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_NOTIFY_URL", "https://hooks.example.org/services/T0/very-secret")
    shown = {name: value for name, value, _ in load_settings().shown()}
    assert "secret" not in shown["notify_url"]
    monkeypatch.delenv("TIDEMARK_NOTIFY_URL")
    assert {name: value for name, value, _ in load_settings().shown()}["notify_url"] == ""
