"""Schemathesis over the whole document: every check, against a served controller with data, and as every role.

It asks as an admin. What it asked is then asked again by every other role and by nobody, so that each operation meets
the same requests, valid and not, from each of them. PostgreSQL refuses more than SQLite does, such as a NUL in a text,
so it is the one that is always asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemark.controller.base.db.tables import Base
from tidemark.controller.base.principal import RIGHTS, ROLES, Role
from tidemark.controller.server.http.authorize import need_of
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import Controller
from support.openapi import EXAMPLES_FILE
from support.other_releases import DOCUMENT
from support.reports import exponential_batches, query_reports
from support.served import served
from support.tokens import make_token

pytestmark = pytest.mark.slow

CONFIG = """
# What JSON Schema cannot say is refused as 422 with a pointer, and a write of what somebody else wrote as 412 or 428.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 401, 403, 404, 409, 412, 422, 428]

# What only a later release knows is taken from jobs, and read as the reference says.
[[operations]]
include-path = ["/v1/jobs/{job}/streams/{stream}/acks", "/v1/jobs/{job}/streams/{stream}/reports"]
[operations.phases.coverage.checks.negative_data_rejection]
expected-statuses = [200, 201, 400, 401, 403, 404, 405, 409, 413, 415, 422, 428, 429]

[generation]
deterministic = true
database = "none"
"""

JOB = "/v1/jobs/orders"
"""The job that the examples of the document name."""


Operation = tuple[str, str]
"""Method and template of the path."""


class Recorded:
    """An application that counts its answers by status, and keeps a request of each operation for each of them.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.statuses: Counter[int] = Counter()
        self.requests: defaultdict[Operation, dict[int, tuple[Scope, bytes]]] = defaultdict(dict)
        """By operation, a request and its body for each status that it was answered with."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        before, parts = dict(scope), []

        async def received() -> Message:
            message = await receive()
            parts.append(message.get("body", b""))
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                self.statuses[status] += 1
                named = scope["method"], getattr(scope.get("route"), "path_format", "")
                if status != 405:  # the path of another operation, which has no such method
                    self.requests[named].setdefault(status, (before, b"".join(parts)))
            await send(message)

        await self._app(scope, received, counted)


async def ask(app: ASGIApp, scope: Scope, body: bytes, token: str | None) -> tuple[int, str]:
    """Send a recorded request again with a token, or without any; return the status and the type of the answer."""
    # An answer that waits for a new bound says no more than one at once.
    left_out = {b"authorization", b"prefer"}
    headers = [(name, value) for name, value in scope["headers"] if name not in left_out]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    messages = [{"type": "http.request", "body": body}]
    started: Message = {}

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)

    await app({**scope, "headers": headers, "state": {}}, receive, send)
    kind = dict(started["headers"]).get(b"content-type", b"").decode()
    return started["status"], kind.partition(";")[0]


def content(controller: Controller) -> dict[str, list[str]]:
    """Return all rows of the store, but for what a request may change that does nothing."""
    passing = {"tokens": {"last_used_us"}, "leases": {"holder", "fencing"}, "replicas": {"beats"}}
    with controller.service.database.read() as session:
        return {
            table.name: sorted(
                map(repr, session.execute(select(*(column for column in table.c if column.name not in left))))
            )
            for table in Base.metadata.sorted_tables
            for left in (passing.get(table.name, set()),)
        }


def check_roles(controller: Controller, recorded: Recorded) -> int:
    """Ask all that was recorded as an admin as every other role, and as nobody; return how many requests that took.

    What the table forbids is asked first, and leaves the store as it was.
    """
    # Made only now: an admin who tries everything revokes tokens.
    tokens: dict[Role | None, str | None] = {
        None: None,
        **{role: make_token(controller, role) for role in ROLES if role != "admin"},
    }
    portal, asked = controller.http.portal, 0
    assert portal is not None
    wrong: list[str] = []
    before = content(controller)
    for forbidden in (True, False):
        for path, known in DOCUMENT["paths"].items():
            for method, described in known.items():
                need = need_of(described["operationId"])
                cases = recorded.requests[method.upper(), path]
                assert cases, f"{method} {path} was never asked"
                for role, token in tokens.items():
                    may = need is None or (role is not None and need.right in RIGHTS[role])
                    if may == forbidden:
                        continue
                    for scope, body in cases.values():
                        asked += 1
                        status, kind = portal.call(ask, controller.app, scope, body, token)
                        answer = described["responses"].get(str(status))
                        refused = status == (401 if role is None else 403)
                        documented = answer is not None and (
                            status == 304 or scope["method"] == "HEAD" or kind in answer["content"]
                        )
                        if status >= 500 or not documented or refused != forbidden:
                            wrong.append(f"{described['operationId']} as {role}: {status} {kind}")
        if forbidden:
            assert content(controller) == before
    assert not wrong, "\n".join(wrong)
    return asked


@contextmanager
def controller_with_data(url: str, gates_file: Path) -> Iterator[tuple[Controller, str]]:
    """Run a controller that knows the streams, the join and the gate of the examples, and give it.

    With it comes the token of an admin.
    """
    examples = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))["operations"]
    gates_file.write_text(f'[{examples["putPolicy"]["body"]["gates"][0]}]\nwebhook = "http://127.0.0.1:9/"\n')
    with Controller(url, gates_file=gates_file, requests_per_second=0, reports_per_second=0) as controller:
        join: dict[str, Any] = examples["putJoin"]["body"]
        # A side of a join can be neither deleted nor without an SLO, so the join is of other streams.
        for stream in ("clicks", *join["streams"]):
            path = f"{JOB}/streams/{stream}"
            for report in query_reports(exponential_batches(30, 40)):
                sent = to_json_object(replace(report, job="orders", stream=stream))
                assert controller.http.post(f"{path}/reports", json=sent).status_code == 201
            assert controller.http.put(f"{path}/slo", json={"target_ppm": 900_000}).status_code == 200
            assert controller.http.put(f"{path}/policy", json={"mode": "OnRestart"}).status_code == 200
        assert controller.http.put(f"{JOB}/joins/attribution", json=join).status_code == 200
        controller.tick()
        yield controller, make_token(controller)


@pytest.mark.long
@pytest.mark.parametrize(
    ("database", "examples"),
    [
        ("postgresql", 2),
        pytest.param("sqlite", 20, marks=pytest.mark.soak),
        pytest.param("postgresql", 20, marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(3_600)
def test_no_request_of_any_role_finds_a_server_error_an_undocumented_answer_or_more_than_it_may(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, examples: int
) -> None:
    # Random requests for each operation come beside those that follow from the document alone.
    url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    if database == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    config, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    config.write_text(CONFIG)
    with controller_with_data(url, tmp_path / "gates.toml") as (controller, token):
        recorded = Recorded(controller.app)
        with served(recorded) as address:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                    *(
                        "run",
                        f"{address}/openapi.json",
                        "--header",
                        f"Authorization: Bearer {token}",
                    ),
                    *("--checks", "all", "--max-examples", str(examples), "--continue-on-failure"),
                    *("--report", "json", "--report-json-path", str(report)),
                ],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
        again = check_roles(controller, recorded)
    body = json.loads(report.read_text())
    print(
        f"{database}: {body['test_cases']['generated']:,} cases of {body['operations']['tested']} operations in "
        f"{body['running_time']:.0f} s; answers by status: {dict(sorted(recorded.statuses.items()))}; "
        f"{again:,} of them again as each role"
    )
    assert body["operations"]["tested"] == body["operations"]["total"]
    assert body["test_cases"]["with_failures"] == 0
    assert not any(status >= 500 for status in recorded.statuses)
    # Not everything is refused: the data are there to be found. Only there is no rollout, and it takes luck to name the
    # version of what is there.
    operations = {
        (method.upper(), path): described
        for path, known in DOCUMENT["paths"].items()
        for method, described in known.items()
    }
    missed = {operation for operation in operations if min(recorded.requests[operation]) >= 300}
    print(f"{database}: never answered with a success: {sorted(missed)}")
    assert {each for each in missed if not _hard(each, operations[each])} == set()


def _hard(operation: Operation, described: dict[str, Any]) -> bool:
    """Return whether an operation can succeed only with a rollout, another stream or the version of what it changes."""
    taken = {parameter["name"].lower() for parameter in described.get("parameters", ())}
    return "{rollout_id}" in operation[1] or not taken.isdisjoint({"if-match", "former"})
