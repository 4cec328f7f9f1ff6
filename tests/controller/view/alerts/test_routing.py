"""Alerts go to destinations by the labels of their stream; each destination is notified for itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.controller_app import Controller
from support.notified import FIRING, RESOLVED, begin, names, notified, skew, tick
from support.patience import PATIENCE_S
from support.policies import at_once
from support.soak import with_soak
from support.webhook import Webhook, running_webhook

pytestmark = pytest.mark.slow


@pytest.fixture
def webhooks() -> Iterator[dict[str, Webhook]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(running_webhook()) for name in ("web", "payments", "rest")}


@pytest.fixture
def file(tmp_path: Path, webhooks: dict[str, Webhook]) -> Path:
    path = tmp_path / "destinations.toml"
    path.write_text(
        "".join(
            f'[{name}]\nwebhook = "{webhooks[name].url}"\nmatch = {{team = "{name}"}}\n'
            for name in ("web", "payments")
        )
        + f'[rest]\nwebhook = "{webhooks["rest"].url}"\n'
    )
    return path


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def url(request: pytest.FixtureRequest) -> str:
    name = "database_url" if request.param == "sqlite" else "new_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


def received(webhooks: dict[str, Webhook]) -> dict[str, list[tuple[str, str]]]:
    return {name: found for name, webhook in webhooks.items() if (found := names(webhook))}


def label(controller: Controller, **labels: str) -> None:
    answer = controller.put("/policy", at_once(labels=labels))
    assert answer.status_code == 200, answer.text


def test_an_alert_carries_the_labels_of_its_stream_and_goes_where_they_say(
    database_url: str, webhooks: dict[str, Webhook], file: Path
) -> None:
    with notified(database_url, notify_file=file, metrics_labels="team,tier") as controller:
        skew(controller)
        label(controller, team="web", tier="1", note="not in the metrics")
        tick(controller)
        assert tick(controller, 5) == 1
        assert received(webhooks) == {"web": [FIRING]}
        (labels,) = (labels for _, _, labels in webhooks["web"].alerts())
        assert (labels["team"], labels["tier"], labels["note"]) == ("web", "1", "not in the metrics")
        metrics = controller.http.get("/metrics").text
        assert 'tidemark_notifications_total{destination="web"} 1.0' in metrics
        assert 'tidemark_notifications_total{destination="rest"} 0.0' in metrics
        assert 'tidemark_stream_info{mode="OnRestart",objective="occurrences",spark_job="job"' in metrics
        assert 'stream="stream",team="web",tier="1"} 1' in metrics
        assert "not in the metrics" not in metrics
        assert controller.status()["notified"] == {
            "labels": {"team": "web", "tier": "1", "note": "not in the metrics"},
            "destinations": ["web"],
            "unrouted": [],
        }
        # Another team takes the stream over: for the one before, the alert has ended.
        label(controller, team="payments")
        assert tick(controller) == 1
        assert tick(controller, 5) == 1
        assert received(webhooks) == {"web": [FIRING, RESOLVED], "payments": [FIRING]}
        label(controller)
        tick(controller)
        tick(controller, 5)
        assert FIRING in received(webhooks)["rest"]


def test_a_destination_that_hangs_holds_up_no_other_one_and_is_notified_later(
    database_url: str, webhooks: dict[str, Webhook], file: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"http://127.0.0.1:{hanging.getsockname()[1]}/"
        file.write_text(f'[hangs]\nwebhook = "{address}"\n' + file.read_text())
        with notified(database_url, notify_file=file, notify_repeat_seconds=60) as controller:
            skew(controller)
            tick(controller)
            begun = begin(controller, 5)
            with hanging.accept()[0]:
                assert begun["rest"].result(PATIENCE_S) == 1
                assert controller.tick().failed == 0
                again = begin(controller, 1)
                assert "hangs" not in again
                assert again["rest"].result(PATIENCE_S) == 1
                assert not begun["hangs"].done()
                # A shutdown does not wait for attempts that are still to come.
    assert begun["hangs"].result(PATIENCE_S) == 0
    assert names(webhooks["rest"]) == [FIRING, FIRING]


def test_after_a_restart_each_destination_goes_on_for_itself(
    url: str, webhooks: dict[str, Webhook], file: Path
) -> None:
    file.write_text(file.read_text().replace('match = {team = "payments"}', ""))
    with notified(url, notify_file=file) as controller:
        skew(controller)
        tick(controller)
        webhooks["payments"].answers[:] = [404]
        assert tick(controller, 5) == 1
        now_us = controller.clock.now_us
    assert received(webhooks) == {"rest": [FIRING]}
    with notified(url, notify_file=file) as controller:
        controller.clock.now_us = now_us
        controller.service.decider.leases.keep(now=True)
        tick(controller)
        assert tick(controller, 5) >= 1
    assert received(webhooks)["rest"].count(FIRING) == 1
    assert received(webhooks)["payments"].count(FIRING) == 1
