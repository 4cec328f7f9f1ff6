"""Asking a gate: a real HTTP server, a real Prometheus, and addresses where nothing answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tidemark.controller.base.operator_file import PrometheusGate, WebhookGate
from tidemark.controller.control.gates import gate_keeper as module
from tidemark.controller.control.gates.gate_keeper import GateQuestion, Reply, ask

from support.prometheus import running_prometheus
from support.webhook import Webhook, running_webhook

QUESTION = GateQuestion(
    stream_id=1,
    rollout_id=1,
    bound_ms=7,
    gate="gate",
    phase="publish",
    rollout={"job": 'a "b" \\ é', "stream": "s", "to_bound_ms": 7},
)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), {}, {}) as url:
        yield url


def test_a_webhook_is_told_of_the_rollout_with_its_token(webhook: Webhook, tmp_path: Path) -> None:
    token = tmp_path / "token"
    gate = WebhookGate(webhook=webhook.url, token_file=token)
    assert ask(gate, QUESTION) == Reply("unknown", f"token file {token}: No such file or directory")
    token.write_text("secret\n")
    assert ask(gate, QUESTION) == Reply("yes", "200")
    assert webhook.messages == [{"gate": "gate", "phase": "publish", "rollout": QUESTION.rollout}]
    assert [headers["authorization"] for headers in webhook.headers] == ["Bearer secret"]


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "yes"),
        (204, "yes"),
        (302, "unknown"),
        (403, "no"),
        (500, "no"),
        (429, "unknown"),
        (503, "unknown"),
    ],
)
def test_a_webhook_says_yes_by_a_2xx_and_no_by_all_that_does_not_stand_before_it(
    webhook: Webhook, status: int, verdict: Any
) -> None:
    webhook.answers[:] = [status]
    assert ask(WebhookGate(webhook=webhook.url), QUESTION) == Reply(verdict, str(status))


def test_a_page_of_whatever_stands_before_it_is_no_answer(webhook: Webhook) -> None:
    webhook.said = "\n<!DOCTYPE html><p>Log in"
    assert ask(WebhookGate(webhook=webhook.url), QUESTION).verdict == "unknown"


def test_the_reason_repeats_the_beginning_of_an_answer_in_one_line(webhook: Webhook) -> None:
    webhook.answers[:] = [403, 403]
    webhook.said = "frozen\r\n until\tMonday\x1b[31m"
    assert ask(WebhookGate(webhook=webhook.url), QUESTION).said == "403: frozen until Monday [31m"
    webhook.said = "x" * 500
    assert ask(WebhookGate(webhook=webhook.url), QUESTION).said == f"403: {'x' * 199}…"


def test_a_gate_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection and sends a header forever."""
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, over = listener.getsockname()[1], threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not over.wait(0.05):
                    connection.sendall(b"X: y\r\n")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            reply = ask(WebhookGate(webhook=f"http://127.0.0.1:{port}/secret"), QUESTION)
        finally:
            over.set()
            thread.join()
    assert reply == Reply("unknown", "no answer within 0.3 s")
    monkeypatch.undo()
    gone = ask(WebhookGate(webhook=f"http://127.0.0.1:{port}/secret"), QUESTION)
    assert gone == Reply("unknown", "it cannot be reached (ConnectError)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "limits", "reply"),
    [
        ("vector(0.003)", {"max": 0.01}, Reply("yes", "0.003")),
        ("0.5", {"min": 0.5, "max": 0.5}, Reply("yes", "0.5")),
        ("vector(0.03)", {"max": 0.01}, Reply("no", "0.03 is above the maximum, 0.01")),
        ("vector(0.03)", {"min": 1}, Reply("no", "0.03 is below the minimum, 1")),
        (
            'label_replace(vector(1), "a", "b", "", "") or vector(3)',
            {"max": 3},
            Reply("yes", "1 to 3"),
        ),
        ("absent_over_time(up[1m]) == 0", {"max": 1}, Reply("unknown", "the query returns nothing")),
        ("vector(0) / 0", {"max": 1}, Reply("unknown", "the query returns NaN")),
        ("up[1m]", {"max": 1}, Reply("unknown", "200, and not the values of an instant query")),
        ("sum(", {"max": 1}, None),
        # The names of the question, whatever they hold, are strings.
        ("absent(nothing{a={{job}},b={{stream}}})", {"min": 1}, Reply("yes", "1")),
    ],
)
def test_a_query_must_return_values_within_the_limits(
    prometheus: str, query: str, limits: dict[str, Any], reply: Reply | None
) -> None:
    found = ask(PrometheusGate(prometheus=f"{prometheus}/", query=query, **limits), QUESTION)
    if reply is None:
        assert found.verdict == "unknown"
        assert found.said.startswith("400: invalid parameter")
    else:
        assert found == reply


def test_what_is_no_prometheus_gives_no_answer(webhook: Webhook) -> None:
    gate = PrometheusGate(prometheus=webhook.url, query="up", max=1)
    assert ask(gate, QUESTION).verdict == "unknown"
