"""Schemathesis over the whole document: every check, against a served controller with data.

PostgreSQL refuses more than SQLite does, such as a NUL in a text, so it is the one that is always asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemark.controller.access import manage_tokens
from tidemark.controller.access.principal import Grant
from tidemark.controller.access.token_store import NewToken
from tidemark.models.wire import to_json_object

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports
from support.served import served

CONFIG = """
# What JSON Schema cannot say is refused as 422 with a pointer, and a write of what somebody else wrote as 412 or 428.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 401, 403, 404, 409, 412, 422, 428]

[generation]
deterministic = true
database = "none"
"""

PATH = "/v1/jobs/orders/streams/clicks"
"""The stream that the examples of the document name."""


class Counted:
    """An application that counts its answers by status, and notes which operations went well.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.statuses: Counter[int] = Counter()
        self.went_well: set[tuple[str, str]] = set()
        """(method, template of the path) of each operation that was answered with a success."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses[message["status"]] += 1
                if message["status"] < 300:
                    route = getattr(scope.get("route"), "path_format", "")
                    self.went_well.add((scope["method"], route))
            await send(message)

        await self._app(scope, receive, counted)


@contextmanager
def controller_with_data(url: str) -> Iterator[tuple[Controller, str]]:
    """Run a controller that knows the stream of the examples; give it and the token of an admin."""
    with Controller(url, requests_per_second=0, reports_per_second=0) as controller:
        for report in query_reports(exponential_batches(30, 40)):
            sent = to_json_object(replace(report, job="orders", stream="clicks"))
            assert controller.http.post(f"{PATH}/reports", json=sent).status_code == 201
        assert controller.http.put(f"{PATH}/slo", json={"target_ppm": 900_000}).status_code == 200
        assert controller.http.put(f"{PATH}/policy", json={"mode": "OnRestart"}).status_code == 200
        controller.tick()
        new = NewToken("schemathesis", Grant("admin"), None)
        made = manage_tokens.make(controller.service.database, new, "the test", controller.clock())
        yield controller, made.token


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "examples"),
    [
        ("postgresql", 2),
        pytest.param("sqlite", 20, marks=pytest.mark.soak),
        pytest.param("postgresql", 20, marks=pytest.mark.soak),
    ],
)
def test_no_request_that_follows_from_the_document_finds_a_server_error_or_an_undocumented_answer(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, examples: int
) -> None:
    # Random requests for each operation come beside those that follow from the document alone.
    url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    if database == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    config, report = tmp_path / "schemathesis.toml", tmp_path / "report.json"
    config.write_text(CONFIG)
    with controller_with_data(url) as (controller, token):
        counted = Counted(controller.app)
        with served(counted) as address:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                    *("run", f"{address}/openapi.json", "--header", f"Authorization: Bearer {token}"),
                    *("--checks", "all", "--max-examples", str(examples), "--continue-on-failure"),
                    *("--report", "json", "--report-json-path", str(report)),
                ],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    body = json.loads(report.read_text())
    print(
        f"{database}: {body['test_cases']['generated']:,} cases of {body['operations']['tested']} operations in "
        f"{body['running_time']:.0f} s; answers by status: {dict(sorted(counted.statuses.items()))}"
    )
    assert body["operations"]["tested"] == body["operations"]["total"]
    assert body["test_cases"]["with_failures"] == 0
    assert not any(status >= 500 for status in counted.statuses)
    # Not everything is refused: the data are there to be found.
    operations = {
        (method.upper(), path)
        for path, known in controller.app.openapi()["paths"].items()
        for method in known
    }
    missed = operations - counted.went_well
    print(f"{database}: never answered with a success: {sorted(missed)}")
    assert len(missed) <= 5
