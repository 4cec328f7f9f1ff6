"""The examples of the OpenAPI document: what a real controller answers over some hours of a job's life.

    make docs

writes them anew, and the document with them. The clock, the delays and the ids are fixed, so they are the same again.
"""

from __future__ import annotations

import json
import logging
import random
import re
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid5

import httpx
from sqlalchemy.exc import OperationalError

from tidemark.controller.base.settings import Settings
from tidemark.controller.server.access.issuer_keys import IssuerKeys
from tidemark.controller.server.app import create_app
from tidemark.controller.server.http import request_body
from tidemark.controller.server.http.openapi import COMMITTED
from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.protocol.late_policy import LateTreatment
from tidemark.models.protocol.messages import AppendDelay, Report, to_json_object

from support.controller_app import Controller
from support.issuer import write_issuers
from support.openapi import EXAMPLES_FILE, as_text
from support.reports import START_US
from support.rolled_job import RolledJob
from support.streams import SECOND, Row
from support.tree import ROOT
from support.webhook import running_webhook

__all__ = ["api_examples", "examples_text"]

Json = dict[str, Any]

_STREAM = "/v1/jobs/orders/streams/clicks"
_MASK = "0" * 51
"""Stands for the secret of a token, and is none: its check does not fit."""
_IDS = UUID("5c9a6a52-6d5e-4f0a-9a55-0d2f6f6f9c11")


class _Recorder:
    """Keeps what a controller was asked and answered: of each operation and status the last, of each problem the first.

    Args:
        controller: the controller.
    """

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.keeps = True
        """Whether requests are kept; not those that only prepare others."""
        self._exchanges: dict[tuple[str, int], httpx.Response] = {}
        self.problems: dict[str, Json] = {}
        controller.http.event_hooks["response"].append(self._keep)

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200, **options: Any) -> Json:
        """Send a request, to the stream where the path begins with no version, and check the status of the answer."""
        if body is not None:
            options["json"] = body
        url = _url(path)
        answer = self.controller.http.request(method, url, **options)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        found: Json = answer.json()
        return found

    def replace(self, method: str, path: str, body: Json | None = None, **options: Any) -> Json:
        """Send a request about the version that is there."""
        url = _url(path)
        held = self.controller.http.get(url).headers["etag"]
        return self.ask(method, path, body, headers={"If-Match": held}, **options)

    def act(self, path: str, reason: str, **options: Any) -> Json:
        """Send the reason for an action."""
        return self.ask("POST", path, {"reason": reason}, **options)

    def sent(self, operation: str) -> Json:
        """Return the body of the last request of an operation."""
        *_, answer = (answer for (of, _), answer in self._exchanges.items() if of == operation)
        body: Json = json.loads(answer.request.content)
        return body

    def operations(self) -> Json:
        """Return by operation the body of a request, and an answer by status."""
        found: dict[str, Json] = {}
        for (operation, status), answer in sorted(self._exchanges.items()):
            kept = found.setdefault(operation, {"answers": {}})
            if answer.request.content:
                kept["body"] = json.loads(answer.request.content)
            kept["answers"][str(status)] = _masked(answer.json())
        return found

    def _keep(self, answer: httpx.Response) -> None:
        kind = answer.headers.get("content-type")
        if kind == "application/json" and self.keeps:
            answer.read()
            self._exchanges[answer.extensions["operation"], answer.status_code] = answer
        elif kind == "application/problem+json":
            found = json.loads(answer.read())
            self.problems.setdefault(found["type"].rpartition(":")[2], found)


def _url(path: str) -> str:
    return path if path.startswith(("/v1/", "/livez", "/readyz")) else _STREAM + path


def _masked(answer: Json) -> Json:
    """Return an answer without the secret of a token."""
    return {**answer, "token": answer["token"][: -len(_MASK)] + _MASK} if "token" in answer else answer


class _Job(RolledJob):
    """A job of a shop: 10 events a second of four partitions, some from phones that were offline for a while."""

    def __init__(self, controller: Controller, stream: str, query: str) -> None:
        super().__init__(controller, bound_ms=20_000, job="orders", stream=stream)
        self.operator = tumbling("1 minute")
        self.granule_us = 6 * SECOND
        self.interval_us = 30 * SECOND
        self.late = LateTreatment(in_force="side", choices=("drop", "side"))
        self.query_id = str(uuid5(_IDS, query))
        self._dice = random.Random(stream)

    @property
    def run_id(self) -> str:
        return str(uuid5(_IDS, f"{self.query_id} {self.run_number}"))

    def _send(self, reports: list[Report]) -> None:
        """Send reports as a driver does: they are examples too."""
        for report in reports:
            answer = self.controller.http.post(self.path + "/reports", json=to_json_object(report))
            assert answer.status_code == 201, answer.text

    def rows(self) -> list[Row]:
        """Return the rows of the next batch; those of partition 3 come by a slow gateway."""
        found = []
        for number in range(300):
            delay_s = (
                self._dice.expovariate(1 / 4) + self._dice.random() * 30 + (45 if number % 4 == 3 else 0)
            )
            if self._dice.random() < 0.03:
                delay_s += self._dice.expovariate(1 / 40)
            found.append((str(number % 4), self.at_us - round(delay_s * SECOND)))
        return found

    def live_on(self, batches: int, *, every: int = 10) -> None:
        """Report some batches, with a turn of the decision loop now and then."""
        for number in range(batches):
            rows = self.rows()
            delay = AppendDelay(
                rows=300, min_us=2_000, mean_us=21_840_000, max_us=196_000_000, by_broker=True
            )
            state = {"state_rows": len(rows) * 4, "state_bytes": len(rows) * 820}
            self.report(rows, duration_ms=840, append_delay=delay, **state)
            if number % every == every - 1:
                self.controller.tick()


def api_examples() -> Json:
    """Return by operation what was asked and answered, and by kind an example of each problem."""
    with running_webhook() as gate, TemporaryDirectory() as folder:
        gates = Path(folder) / "gates.toml"
        gates.write_text(f'[change-calendar]\nwebhook = "{gate.url}"\n')
        with _started(folder, gates_file=gates) as one:
            viewer = _make_tokens(one)
            _live(one)
            _fail(one, viewer)
        with _started(folder, requests_per_second=1) as limited:
            limited.ask("PUT", "/slo", "-" * 10_000_000, status=413)
            limited.ask("GET", "/v1/jobs")
            limited.ask("GET", "/v1/jobs", status=429)
        signed_in = _sign_in(folder)
    return {
        "operations": {**one.operations(), **signed_in},
        "problems": dict(sorted({**one.problems, **limited.problems}.items())),
    }


def _sign_in(folder: str) -> Json:
    """Return what a controller with an issuer answers about it; no issuer is called, and it has no keys."""
    address = {"issuer": "https://id.example.com/realms/shop", "audience": "tidemark"}
    base = f"{address['issuer']}/protocol/openid-connect"
    said = {
        "issuer": address["issuer"],
        "jwks_uri": f"{base}/certs",
        "authorization_endpoint": f"{base}/auth",
        "token_endpoint": f"{base}/token",
        "revocation_endpoint": f"{base}/revoke",
        "end_session_endpoint": f"{base}/logout",
    }
    table = {**address, "group_roles": "sre=operator", "client_id": "tidemark"}
    with (
        patch.object(IssuerKeys, "_get", lambda *_: said),
        _started(folder, issuers_file=write_issuers(Path(folder), keycloak=table)) as trusting,
    ):
        trusting.ask("GET", "/v1/sign-in")
        return trusting.operations()


def examples_text() -> str:
    """Return the examples as they are committed."""
    text = json.dumps(api_examples(), indent=1, ensure_ascii=False) + "\n"
    # The second part of a version is drawn at random when it is written.
    return re.sub(r"(\d+)-[0-9a-f]{16}\b", r"\1-5d41402abc4b2a76", text)


@contextmanager
def _started(folder: str, **settings: Any) -> Iterator[_Recorder]:
    url = f"sqlite:///{folder}/{'-'.join(settings)}.db"
    with Controller(url, steady=lambda: 0.0, **settings) as controller:
        controller.clock.now_us = START_US
        yield _Recorder(controller)


# -- the life of a job ----------------------------------------------------------------------------------------------


def _live(one: _Recorder) -> None:
    job = _Job(one.controller, "clicks", "clicks")
    job.restart()
    job.live_on(240)
    one.controller.snapshot()
    _send_late_counts(one, job)
    _specify(one)
    _widen(one, job)
    _read(one, job)
    _act(one, job)
    _join(one)
    _adopt(one, job)
    _end(one, job)


def _make_tokens(one: _Recorder) -> str:
    """Make tokens, and return that of a viewer of other jobs."""
    root = one.ask("POST", "/v1/tokens", {"name": "ada", "role": "admin"}, status=201)["token"]
    one.controller.http.headers["Authorization"] = f"Bearer {root}"
    one.ask("GET", "/v1/caller")
    viewer = {"name": "shop-viewer", "role": "viewer", "jobs": ["shop-*"]}
    token: str = one.ask("POST", "/v1/tokens", viewer, status=201)["token"]
    made = {"name": "orders-job", "role": "job", "jobs": ["orders"], "lifetime_ms": 7_776_000_000}
    number = one.ask("POST", "/v1/tokens", made, status=201)["id"]
    one.ask("GET", f"/v1/tokens/{number}")
    one.ask("POST", f"/v1/tokens/{number}:rotate", {}, status=201)
    one.ask("POST", f"/v1/tokens/{number}:rotate", {}, status=409)
    one.ask("DELETE", f"/v1/tokens/{number}")
    one.ask("GET", "/v1/tokens")
    one.ask("GET", "/v1/tokens/99", status=404)
    return token


def _send_late_counts(one: _Recorder, job: _Job) -> None:
    ages = {"north": [20, 14, 10, 5, 3], "south": [60, 80, 90, 80, 50, 14, 4]}
    north = {
        "value": "north",
        "rows": 53_775,
        "late": 52,
        "max_late_ms": 28_310,
        "late_by_age": ages["north"],
    }
    south = {
        "value": "south",
        "rows": 17_925,
        "late": 378,
        "max_late_ms": 91_040,
        "late_by_age": ages["south"],
    }
    body = {
        "schema_version": 1,
        "query_id": job.query_id,
        "source": "0",
        "first_batch": 0,
        "last_batch": 238,
        "hour_us": START_US,
        "dimension": "region",
        "values": [north, south],
        "partitions": [{**north, "value": "0"}, {**south, "value": "3"}],
    }
    one.ask("POST", "/late-rows", body, status=201)
    one.ask("POST", "/late-rows", body)


def _specify(one: _Recorder) -> None:
    one.ask("DELETE", "/slo", status=404, headers={"If-Match": "*"})
    one.ask("DELETE", "/policy", status=404, headers={"If-Match": "*"})
    one.ask("PUT", "/policy", {"mode": "Live"}, status=409)
    one.ask(
        "PUT",
        "/policy",
        {"mode": "OnRestart", "approval": "all", "gates": ["change-calendar"], "labels": {"team": "web"}},
    )
    one.ask("PUT", "/slo", {"target_ppm": 995_000, "latency_cap_ms": 900_000})
    one.ask("PUT", "/slo", {"target_ppm": 999_000}, status=428)
    one.ask("PUT", "/slo", {"target_ppm": 999_000}, status=412, headers={"If-Match": '"2-7d793037a0760186"'})
    for path in ("/slo", "/policy", "/v1/gates"):
        one.ask("GET", path)


def _widen(one: _Recorder, job: _Job) -> None:
    """Widen the bound in a rollout: a person approves it, the gate is asked, and the job takes it up."""
    one.controller.tick()
    one.act(f"/rollouts/{job.rollout()['id']}:approve", "looked at the curve: it is flat from 30 s on")
    _ask_gates(one)
    job.wait(90)
    job.restart()
    one.ask("POST", "/acks", one.sent("postAcknowledgement"))
    job.live_on(10)
    _ask_gates(one)
    one.controller.snapshot()


def _ask_gates(one: _Recorder) -> None:
    one.controller.tick()
    wait(one.controller.service.gates.tick())
    one.controller.tick()


def _read(one: _Recorder, job: _Job) -> None:
    """Read all that is known of the stream."""
    number = job.rollout()["id"]
    for path in (
        "/v1/fleet",
        "/v1/savings",
        "/v1/jobs",
        "/v1/jobs/orders",
        "",
        "/bound",
        "/bounds?limit=1",
        "/acks",
        "/rollouts",
        f"/rollouts/{number}",
        "/v1/rollouts",
        "/events?limit=2",
        "/v1/events?limit=2",
        "/reports?limit=1",
        "/reports/bodies?limit=1",
        "/predictions",
        "/curve?bound_ms=20000&bound_ms=60000",
        "/preview?bound_ms=60000",
        "/partition-curve?partition=3&bound_ms=20000&bound_ms=60000",
        "/partitions",
        "/windows?limit=1",
        f"/windows/{job.at_us // (60 * SECOND) * 60 * SECOND - 60 * SECOND}",
        "/lost",
        f"/history?from_us={job.at_us - 300 * SECOND}&to_us={job.at_us}",
        "/heatmap?slots=2",
        "/budget?points=3",
        f"/missing?query_id={job.query_id}",
        "/livez?verbose=",
        "/readyz?verbose=",
    ):
        one.ask("GET", path)


def _act(one: _Recorder, job: _Job) -> None:
    """Undo what was rolled out, and hold the stream where it is."""
    number = job.rollout()["id"]
    one.act(f"/rollouts/{number}:rollback", "INC-1042: the new region is late")
    one.act(f"/rollouts/{number}:approve", "again", status=409)
    one.act(f"/rollouts/{number}:lift", "the region is well again")
    job.restart()
    job.live_on(130)
    one.act(f"/rollouts/{job.rollout()['id']}:discard", "after the release")
    one.act(":pause", "the release goes out")
    one.act(":resume", "the release is out")
    one.act("/rollouts/99:approve", "a slip", status=404)
    pin = "/v1/pin?job=orders&stream=clicks"
    one.ask("GET", pin, status=404)
    one.ask("PUT", pin, {"to": "Off", "reason": "INC-1042: a clock is wrong upstream"})
    one.ask("GET", pin)
    one.ask("GET", "/v1/pins")
    one.ask("DELETE", pin)


def _join(one: _Recorder) -> None:
    """Put an SLO on the output of a join of two other streams of the job."""
    one.keeps = False
    sides = [_Job(one.controller, stream, "attribution") for stream in ("impressions", "views")]
    for side in sides:
        side.operator, side.at_us = row_level(), START_US
        side.restart()
    for _ in range(60):
        for side in sides:
            side.live_on(1)
    for side in sides:
        side.put("slo", {"target_ppm": 990_000})
    one.controller.tick()
    one.keeps = True
    join = {"streams": ["impressions", "views"], "target_ppm": 990_000, "horizon_ms": 3_600_000}
    path = "/v1/jobs/orders/joins/attribution"
    one.ask("GET", path, status=404)
    one.ask("PUT", path, join)
    one.ask("PUT", "/v1/jobs/orders/joins/sessions", join, status=409)
    one.ask("GET", path)
    one.ask("GET", "/v1/jobs/orders/joins")
    one.ask("DELETE", "/v1/jobs/orders/streams/views/slo", status=409, headers={"If-Match": "*"})
    one.replace("DELETE", path)


def _adopt(one: _Recorder, job: _Job) -> None:
    """Let one of them begin anew, by another name, and go on as what it was."""
    one.keeps = False
    anew = _Job(one.controller, "page-views", "page-views")
    anew.at_us = job.at_us
    anew.restart()
    anew.live_on(2)
    one.keeps = True
    params = {"former": "views", "reason": "the query was renamed in release 7"}
    one.ask("POST", "/v1/jobs/orders/streams/page-views:adopt", params=params)


def _end(one: _Recorder, job: _Job) -> None:
    """Let two batches go missing, and delete the stream."""
    job.at_us, job.batch_id = job.at_us + 3 * job.interval_us, job.batch_id + 2
    job.live_on(1)
    report = one.sent("postReport")
    one.ask("POST", "/reports", report)
    one.ask("POST", "/reports", {**report, "state_rows": 1}, status=409)
    one.ask("GET", f"/missing?query_id={job.query_id}")
    one.replace("DELETE", "/slo")
    one.replace("DELETE", "/policy")
    retired, any_version = {"reason": "the job is retired"}, {"If-Match": "*"}
    one.ask("DELETE", "", params=retired, headers=any_version, status=409)
    one.ask("DELETE", "", params={**retired, "whileReporting": "true"}, headers=any_version)


# -- what goes wrong ------------------------------------------------------------------------------------------------


def _fail(one: _Recorder, viewer: str) -> None:
    one.ask("GET", "", status=401, headers={"Authorization": f"Bearer {viewer[:-1]}"})
    one.ask("GET", "", status=403, headers={"Authorization": f"Bearer {viewer}"})
    one.ask("GET", "", status=404)
    one.ask("GET", "/v1/jobs/nothing", status=404)
    one.ask("PUT", "/slo", status=400, content="{", headers={"Content-Type": "application/json"})
    one.ask("PUT", "/slo", status=415, content="{}", headers={"Content-Type": "text/plain"})
    one.ask("PUT", "/slo", {"target_ppm": "99.5 %"}, status=422)
    with patch.object(request_body, "_received", side_effect=TimeoutError):
        one.ask("PUT", "/slo", {}, status=408)
    locked = OperationalError("BEGIN", {}, sqlite3.OperationalError("database is locked"))
    with patch.object(one.controller.service.database, "read", side_effect=locked):
        one.ask("GET", "", status=503)


def _main() -> None:
    logging.disable()  # of what is made to go wrong
    EXAMPLES_FILE.write_text(examples_text(), encoding="utf-8")
    document = as_text(create_app(Settings(database_url="sqlite:///tidemark.db")))
    COMMITTED.write_text(document, encoding="utf-8")
    for path in (EXAMPLES_FILE, COMMITTED):
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
