"""A controller for jobs whose streams nobody named: it takes what every stream sends, and answers what a test says."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import unquote

from tidemark.models.completeness.outcome import Window
from tidemark.models.evidence.ledger import Tally, judge
from tidemark.models.protocol.messages import (
    BoundAnswer,
    Mode,
    Report,
    read_report,
    to_json_object,
)

from support.bound_server import LoopbackServer
from support.receipts import body_of, receipt_for

__all__ = ["ReportServer"]


class ReportServer(LoopbackServer):
    """What each job and stream sends it, and what it answers."""

    def __init__(self) -> None:
        self.reports: dict[tuple[str, str], list[Report]] = defaultdict(list)
        """By job and stream."""
        self.acknowledgements: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        self.windows: list[Window] = []
        """What it says of the windows of every stream."""
        self.away = False
        """Whether it answers nothing."""
        self._answers: dict[str, tuple[Mode, int]] = {}
        super().__init__(_Handler)

    def publish(self, name: str, mode: Mode, bound_ms: int) -> None:
        """Answer a stream of this name, or all streams of a job, with this from now on."""
        self._answers[name] = mode, bound_ms

    def answer(self, job: str, stream: str) -> BoundAnswer:
        """Return what is published for a stream; without anything that its mode is Off."""
        found = self._answers.get(stream) or self._answers.get(job)
        mode, bound_ms = found or ("Off", None)
        return BoundAnswer(
            job=job,
            stream=stream,
            mode=mode,
            generation=int(found is not None),
            bound_ms=bound_ms,
            reason="a test says so",
        )

    def ledger(self, stream: str) -> Tally:
        """Return the sum of what became of the rows of a stream, in every job that has one of the name."""
        found = [
            report for (_, name), reports in self.reports.items() if name == stream for report in reports
        ]
        judged = [judge(report) for report in found]
        assert sum(each.unjudged_rows for each in judged) == 0, [report.contradiction for report in found]
        return sum((each.total for each in judged), Tally())

    def streams(self) -> set[str]:
        """Return the names of all streams that have reported."""
        return {stream for _, stream in self.reports}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def said(self) -> ReportServer:
        return cast("ReportServer", self.server.said)  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        job, stream, what = self._place()
        if self.said.away:
            self._send(503, b"")
        elif what == "bound":
            self._send(200, json.dumps(to_json_object(self.said.answer(job, stream))).encode())
        else:
            windows = [asdict(one) for one in self.said.windows]
            self._send(
                200, json.dumps({"reports": [], "missing": [], "late": None, "windows": windows}).encode()
            )

    def do_POST(self) -> None:
        job, stream, what = self._place()
        content, encoding = (
            self.rfile.read(int(self.headers["Content-Length"])),
            self.headers.get("Content-Encoding"),
        )
        body = body_of(content, encoding)
        if not self.said.away:
            said = json.loads(body)
            if what == "reports":
                self.said.reports[job, stream].append(read_report(said))
            elif what == "acks":
                self.said.acknowledgements[job, stream].append(said)
        receipt = json.dumps(receipt_for(content, encoding)).encode()
        self._send(*((503, b"") if self.said.away else (201, receipt)))

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""

    def _place(self) -> tuple[str, str, str]:
        """Return job, stream and what is asked for."""
        parts = self.path.partition("?")[0].split("/")
        return unquote(parts[3]), unquote(parts[5]), parts[6]

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
