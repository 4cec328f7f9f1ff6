"""Outside gates and rollouts, end to end: what is asked when, and what follows from the answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidemark.models.base.defaults import GATE_ASK_MS, GATE_FAILURES

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.rolled_job import RolledJob
from support.seeded import continued
from support.settled import LOOSE, settled
from support.soak import with_soak
from support.webhook import Webhook, running_webhook

pytestmark = pytest.mark.slow

GATED = at_once(gates=["calendar"])
WIDER = {**GATED, "margin_ppm": 4_000_000}
"""A policy under which a wider bound is recommended."""
NOT_YET = "held: the outside gate calendar has yet to answer"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


@pytest.fixture
def gates_file(tmp_path: Path, webhook: Webhook) -> Path:
    path = tmp_path / "gates.toml"
    path.write_text(f'[calendar]\nwebhook = "{webhook.url}"\n')
    return path


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def job(request: pytest.FixtureRequest, gates_file: Path) -> Iterator[RolledJob]:
    """A settled job whose policy names a gate, on each database that is there."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, settled, gates_file=gates_file) as found:
        found.put("policy", GATED)
        yield found


def ask(controller: Controller, *, later: bool = False) -> int:
    """Ask the gates that are to be asked now, or a while later, and wait for what follows; return how many."""
    if later:
        controller.clock.now_us += GATE_ASK_MS * 1_000
    asked = controller.service.gates.tick()
    done, waiting = wait(asked, PATIENCE_S)
    assert not waiting
    for one in done:
        one.result()
    return len(asked)


@contextmanager
def continued_by(job: RolledJob, gates_file: Path, **settings: Any) -> Iterator[None]:
    """Stop the job's controller and go on with another one, of other settings, on the same store."""
    before = job.controller
    before.service.decider.leases.stop()
    job.controller = Controller(before.service.settings.database_url, gates_file=gates_file, **settings)
    job.controller.clock.now_us = before.clock.now_us
    with job.controller:
        job.controller.service.decider.leases.keep(now=True)
        yield
    job.controller = before


def answers(job: RolledJob) -> list[tuple[str, str, str, int]]:
    return [
        (one["gate"], one["phase"], one["verdict"], one["failures"]) for one in job.rollout()["gate_answers"]
    ]


def test_a_narrowing_is_published_as_soon_as_its_gate_says_yes_and_nobody_is_asked_before(
    job: RolledJob, webhook: Webhook
) -> None:
    controller = job.controller
    etag = controller.get("/slo").headers["etag"]
    tried = controller.http.put(f"{job.path}/slo?dryRun=All", json=LOOSE, headers={"If-Match": etag}).json()
    assert tried.get("held") == NOT_YET, tried
    assert ask(controller) == 0
    before_ms = job.published()["bound_ms"]
    job.put("slo", LOOSE)
    held = job.rollout()
    assert (held["state"], held["held_by"], held["reason"]) == ("Recommended", "Outside", NOT_YET)
    conditions = {one["type"]: one["detail"] for one in job.status()["conditions"]}
    assert NOT_YET in conditions["RolloutHeld"]
    webhook.answers[:] = [403]
    webhook.said = "frozen until Monday"
    assert ask(controller) == 1
    refused = job.rollout()
    assert refused["reason"] == "held: the outside gate calendar says no: 403: frozen until Monday"
    assert answers(job) == [("calendar", "publish", "no", 1)]
    # What it answered counts for a while.
    assert ask(controller) == 0
    assert job.published()["bound_ms"] == before_ms
    assert ask(controller, later=True) == 1
    published = job.rollout()
    assert (published["state"], published["held_by"]) == ("Published", None)
    assert job.published()["bound_ms"] == published["to_bound_ms"] < before_ms
    (message,) = webhook.messages
    assert (message["gate"], message["phase"]) == ("calendar", "publish")
    sent = message["rollout"]
    assert (sent["job"], sent["stream"], sent["id"]) == ("job", "stream", published["id"])
    assert (sent["from_bound_ms"], sent["to_bound_ms"]) == (before_ms, published["to_bound_ms"])
    assert sent["predicted"] == published["predicted"]
    assert [event["reason"] for event in job.events("GateAnswered")] == [
        "the outside gate calendar says yes before it is published: 200: frozen until Monday",
        "the outside gate calendar says no before it is published: 403: frozen until Monday",
    ]
    metrics = controller.http.get("/metrics").text
    assert 'tidemark_gate_answers_total{gate="calendar",verdict="no"} 1.0' in metrics
    assert 'tidemark_gate_duration_seconds_count{gate="calendar"} 2.0' in metrics


@on_sqlite_alone("job")
def test_a_widening_asks_nobody(job: RolledJob, webhook: Webhook) -> None:
    job.put("policy", WIDER)
    assert (job.rollout()["direction"], job.rollout()["state"]) == ("Widen", "Published")
    assert ask(job.controller) == 0
    assert webhook.headers == []


def narrowed(job: RolledJob) -> dict[str, Any]:
    """Narrow the job with its gate's yes, until that is in effect; return the rollout."""
    job.put("slo", LOOSE)
    assert ask(job.controller) == 1
    job.restart()
    job.run(3, 10.0)
    rollout = job.rollout()
    assert rollout["state"] == "Effective", rollout["reason"]
    return rollout


def test_a_narrowing_that_its_gate_rejects_in_a_row_is_rolled_back_and_not_tried_again(
    job: RolledJob, webhook: Webhook
) -> None:
    before_ms = job.published()["bound_ms"]
    narrow = narrowed(job)
    webhook.answers[:] = [500] * GATE_FAILURES
    for count in range(1, GATE_FAILURES):
        assert ask(job.controller, later=True) == 1
        assert answers(job) == [("calendar", "verify", "no", count)]
        assert job.rollout()["reason"].endswith(f"calendar says no ({count} of 3 in a row): 500")
    assert ask(job.controller, later=True) == 1
    undone = job.controller.http.get(f"{job.path}/rollouts/{narrow['id']}").json()
    reason = "the outside gate calendar said no 3 times in a row: 500"
    assert (undone["state"], undone["reason"]) == ("RolledBack", reason)
    assert job.published()["bound_ms"] == before_ms
    assert job.published()["reason"] == f"rollback: {reason}"
    assert [event["kind"] for event in undone["history"]][-3:] == [
        "RolloutEffective",
        "GateAnswered",
        "RolloutRolledBack",
    ]
    job.at_us = job.controller.clock.now_us
    job.run(60, 10.0, tick=False)
    job.controller.tick()
    assert (job.rollout()["state"], job.rollout()["held_by"]) == ("Recommended", "FailedBefore")


@on_sqlite_alone("job")
def test_a_narrowing_is_verified_only_once_its_gate_says_yes(job: RolledJob, webhook: Webhook) -> None:
    narrow = narrowed(job)
    job.run(60, 10.0, tick=False)
    job.controller.tick()
    held = job.rollout()
    assert (held["id"], held["state"], held["held_by"]) == (narrow["id"], "Effective", "Outside")
    assert held["reason"].endswith(f"as predicted; {NOT_YET}")
    assert ask(job.controller) == 1
    assert job.rollout()["state"] == "Verified"
    assert [message["phase"] for message in webhook.messages] == ["publish", "verify"]
    assert ask(job.controller, later=True) == 0


@on_sqlite_alone("job")
def test_a_narrowing_under_a_pin_asks_nobody(job: RolledJob, webhook: Webhook) -> None:
    narrowed(job)
    asked = len(webhook.headers)
    job.controller.http.put(job.pin_url, json={"to": "Off", "reason": "INC-5"})
    job.controller.tick()
    assert ask(job.controller, later=True) == 0
    assert len(webhook.headers) == asked


@on_sqlite_alone("job")
@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (True, "it cannot be reached (ConnectError)"),
        (False, "this controller has no gate of that name (TIDEMARK_GATES_FILE)"),
    ],
)
def test_a_gate_that_gives_no_answer_holds_a_narrowing_and_says_so_and_no_widening(
    job: RolledJob, gates_file: Path, *, kept: bool, said: str
) -> None:
    """Also one that the controller no longer has; the rest of the policy can be changed then."""
    job.put("slo", LOOSE)
    gates_file.write_text('[calendar]\nwebhook = "http://127.0.0.1:9/"\n' if kept else "")
    with continued_by(job, gates_file):
        controller = job.controller
        ask(controller)
        assert (job.rollout()["state"], job.rollout()["held_by"]) == ("Recommended", "Outside")
        assert job.rollout()["reason"] == f"held: the outside gate calendar gives no answer: {said}"
        assert answers(job) == [("calendar", "publish", "unknown", 0)]
        job.put("policy", {**WIDER, "max_bound_ms": 100_000})
        assert (job.rollout()["direction"], job.rollout()["state"]) == ("Widen", "Published")


@on_sqlite_alone("job")
def test_a_gate_that_hangs_is_asked_once_and_nothing_else_waits_for_it(
    job: RolledJob, gates_file: Path
) -> None:
    job.put("slo", LOOSE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gates_file.write_text(f'[calendar]\nwebhook = "http://127.0.0.1:{listener.getsockname()[1]}/"\n')
        with continued_by(job, gates_file):
            (asked,) = job.controller.service.gates.tick()
            with listener.accept()[0]:
                assert job.controller.service.gates.tick() == [asked]
                assert job.controller.tick().failed == 0
                job.put("policy", WIDER)
                assert (job.rollout()["direction"], job.rollout()["state"]) == ("Widen", "Published")
                assert not asked.done()
            # What comes too late changes nothing.
            asked.result(PATIENCE_S)
            assert job.rollout()["gate_answers"] == []


@on_sqlite_alone("job")
def test_a_bound_that_nobody_has_taken_up_is_replaced_by_a_wider_one_alone(
    job: RolledJob, webhook: Webhook
) -> None:
    """The narrower one would need an answer first, and the wider one protects rows."""
    job.put("policy", {**GATED, "cooldown_ms": 0})
    job.put("slo", LOOSE)
    assert ask(job.controller) == 1
    first = job.rollout()
    assert first["state"] == "Published"
    job.put("slo", {"target_ppm": 700_000})
    assert job.status()["recommended"]["bound_ms"] < first["to_bound_ms"]
    assert (job.rollout()["id"], job.published()["bound_ms"]) == (first["id"], first["to_bound_ms"])
    job.put("slo", {"target_ppm": 850_000})
    wider = job.rollout()
    assert (wider["state"], wider["direction"]) == ("Published", "Narrow")
    assert first["to_bound_ms"] < wider["to_bound_ms"] < wider["from_bound_ms"]
    assert len(webhook.messages) == 1


@on_sqlite_alone("job")
def test_a_policy_names_only_gates_that_the_operators_have_set_up(job: RolledJob) -> None:
    etag = job.controller.get("/policy").headers["etag"]
    wrong = at_once(gates=["calendar", "http://169.254.169.254/"])
    answer = job.controller.http.put(f"{job.path}/policy", json=wrong, headers={"If-Match": etag})
    assert answer.status_code == 422
    problem = "this controller has no outside gate 'http://169.254.169.254/'; it has calendar"
    assert answer.json()["errors"] == [{"pointer": "/gates/1", "detail": problem}]
    assert job.controller.get("/policy").json()["gates"] == ["calendar"]


@on_sqlite_alone("job")
def test_of_two_replicas_the_one_that_decides_the_stream_asks(
    job: RolledJob, webhook: Webhook, gates_file: Path
) -> None:
    first = job.controller
    with Controller(first.service.settings.database_url, gates_file=gates_file) as second:
        second.clock.now_us = first.clock.now_us
        job.put("slo", LOOSE)
        keepers = [one.service.decider.leases for one in (first, second)]

        def shared() -> bool:
            for keeper in keepers:
                keeper.keep(now=True)
            return all(keeper.held == 32 for keeper in keepers)

        until(shared, "32 shards for each", pause_s=0)
        assert ask(first) + ask(second) == 1
    assert len(webhook.messages) == 1
    assert job.rollout()["state"] == "Published"


@on_sqlite_alone("job")
def test_the_thread_asks_by_itself(job: RolledJob, gates_file: Path) -> None:
    job.put("slo", LOOSE)
    with continued_by(job, gates_file, tick_seconds=0.05):
        until(lambda: job.rollout()["state"] == "Published", "the narrowing to be published")
