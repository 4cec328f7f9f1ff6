"""The requests of docs/how-to/rest.md, sent by curl as a reader would, to a controller with the stream they name."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tidemark.controller.server.http.authorize import need_of
from tidemark.controller.tools.client import Client

from support.controller_app import Controller
from support.docs import DOCS
from support.http_job import HttpJob
from support.other_releases import DOCUMENT
from support.reports import START_US
from support.served import served

SLO = "/v1/jobs/shop/streams/clicks/slo"


def lines_to_type() -> Iterator[str]:
    """Yield what a reader types, in order: the lines of the blocks, and the requests of the tables."""
    text = (DOCS / "how-to" / "rest.md").read_text(encoding="utf-8")
    for block, request in re.findall(r"^```sh\n(.*?)^```|`(curl \"[^`]+)`", text, re.MULTILINE | re.DOTALL):
        yield from re.sub(r" *\\\n *", " ", block).splitlines() if block else [request]


@contextmanager
def shell(folder: Path) -> Iterator[Callable[[str], None]]:
    """Start a shell in a folder and give what runs a line in it; a request that is rejected fails."""
    with subprocess.Popen(
        ["bash"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"]},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(line: str) -> None:
            stdin.write(f'{line}\ncode=$?; echo; echo "ended with $code"\n')
            stdin.flush()
            printed = ""
            while not (said := stdout.readline()).startswith("ended with "):
                assert said, (line, printed)
                printed += said
            assert said == "ended with 0\n", (line, printed)

        run('curl() { command curl --silent --show-error --fail-with-body "$@"; }')
        yield run


class Recorded:
    """An application, and which of its operations were asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.operations = set[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        self.operations.add(scope["route"].operation_id)


def operations_of_people() -> set[str]:
    found = {
        operation["operationId"]: need_of(operation["operationId"])
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
    }
    return {name for name, need in found.items() if need is None or need.right != "Report"}


@pytest.mark.slow
def test_every_request_of_the_document_is_answered_and_none_that_people_make_is_left_out(
    database_url: str, tmp_path: Path
) -> None:
    with Controller(database_url) as controller:
        app = Recorded(controller.app)
        controller.clock.now_us = START_US
        with served(app) as url:
            with Client(url, token="") as client:
                HttpJob(controller, client).start()
            app.operations.clear()
            with shell(tmp_path) as run:
                for line in lines_to_type():
                    run(line.replace("http://127.0.0.1:8642", url))
                    controller.tick()
    assert operations_of_people() - app.operations == set()


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ({"json": {"latency": 900}}, 422, "/latency"),
        ({"json": {"target_ppm": 990_000}}, 428, 'send If-Match: "1-'),
        ({"content": b'{"target_ppm": 990000}', "headers": FORM}, 415, "-H 'Content-Type: application/json'"),
        ({"json": {"target_ppm": 990_000, "reason": "why"}}, 422, "/reason"),
        ({"json": {"target_ppm": 990_000}, "params": {"dryRun": "yes"}}, 422, "'true'"),
    ],
)
def test_what_first_tries_get_wrong_is_answered_with_what_to_write(
    controller: Controller, request_: dict[str, Any], status: int, says: str
) -> None:
    controller.http.put(SLO, json={"target_ppm": 995_000})
    answer = controller.http.put(SLO, **request_)
    assert answer.status_code == status
    assert any(says in each for each in (answer.json()["detail"], *map(str, answer.json().get("errors", ()))))


def test_an_etag_may_come_without_its_quotes(controller: Controller) -> None:
    etag = controller.http.put(SLO, json={"target_ppm": 995_000}).headers["etag"].strip('"')
    answers = [
        controller.http.put(SLO, json={"target_ppm": target}, headers={"If-Match": etag}).status_code
        for target in (990_000, 980_000)
    ]
    assert answers == [200, 412]
