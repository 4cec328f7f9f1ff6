"""Mistakes that a new user plausibly makes, by the command line, in files and over REST, and what is answered."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.models.protocol.messages import to_json_object

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports

__all__ = ["Command", "Files", "Request", "answer_to", "report_shop"]

Outcome = tuple[int, str]
"""Exit code or HTTP status, and what is said."""


@dataclass(frozen=True)
class Command:
    """A command line without ``tidemark``, split at spaces."""

    line: str
    token: str = ""

    def __str__(self) -> str:
        return f"tidemark {self.line}"


@dataclass(frozen=True)
class Files:
    """A file that is applied."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Request:
    """A request of curl."""

    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.body or ''}".rstrip()


def report_shop(controller: Controller) -> None:
    """Let the streams clicks, clicks_eu and orders of job shop report; clicks has an SLO."""
    for name in ("clicks", "clicks_eu", "orders"):
        for report in query_reports(exponential_batches(3, 5), stream=name):
            body: dict[str, Any] = to_json_object(report) | {"job": "shop"}
            sent = controller.http.post(f"/v1/jobs/shop/streams/{name}/reports", json=body)
            assert sent.status_code == 201, sent.text
    controller.http.put("/v1/jobs/shop/streams/clicks/slo", json={"target_ppm": 990_000})


def answer_to(mistake: Command | Files | Request, url: str) -> Outcome:
    """Return what a controller at an address, and the command, answer."""
    if isinstance(mistake, Request):
        with httpx.Client() as http:
            found = http.request(
                mistake.method, url + mistake.path, content=mistake.body, headers=dict(mistake.headers)
            )
        body = found.json()
        return found.status_code, str(body.get("detail", body))
    arguments, text = ["apply", "-f", "-"], None
    token = ""
    if isinstance(mistake, Files):
        text = mistake.text
    else:
        line = mistake.line.replace("URL", url).replace("HTTPS", _https(url))
        arguments, token = shlex.split(line), mistake.token
    environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": token, "COLUMNS": "200"}
    result = CliRunner().invoke(app, arguments, env=environment, input=text, prog_name="tidemark")
    said = (result.stderr or result.stdout).replace(url, "URL").replace(_https(url), "HTTPS")
    return result.exit_code, said.rstrip()


def _https(url: str) -> str:
    return url.replace("http://", "https://")
