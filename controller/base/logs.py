"""The log: one line an event, for people or as JSON, the web server's lines included.

Every line carries its context (request, job, stream, caller). Tokens are never logged: whatever looks like one is
hidden. What a terminal would obey is written out. A fault that repeats is one line, and a count in ``left_out``.
"""

from __future__ import annotations

import copy
import io
import logging
import queue
import re
import sys
import threading
import time
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tidemark.controller.base.errors import StoreUnavailableError
from tidemark.controller.base.settings import LogFormat, LogLevel
from tidemark.controller.base.token_format import JWT, TOKEN
from tidemark.models.base.text import plain

HIDDEN = "[hidden]"
"""Replaces a secret."""

_FIELDS = frozenset({"method", "route", "status", "duration_ms", "left_out"})
"""Fields of a line beside its text and its context."""

REPEAT_SECONDS = 60.0
"""How long a line stands for those like it."""

_MAX_FAULTS = 100
"""Faults of one minute that count apart by what they are about."""

_FAULT = 400
"""Status of an answer from which on a request is a fault."""

_CREDENTIALS = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+")
"""Credentials as in a header, those of other systems too."""

_MAX_WAITING, _DRAIN_SECONDS = 10_000, 1.0
"""Lines that wait for whoever takes the log; how long an end waits for them, in seconds."""

_log = logging.getLogger(__name__)

_SERVER_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access")

_CLIENT_LOGGERS = ("httpx", "httpcore")
"""They would log the address of each request: whoever knows a webhook's may write to it."""


def configure_logs(level: LogLevel, form: LogFormat, stream: TextIO | None = None) -> None:
    """Make all loggers of this process write to ``stream``, by default to standard error."""
    handler = handler_for(form, _Aside(sys.stderr) if stream is None else stream)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _SERVER_LOGGERS:
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True
        server.setLevel(logging.NOTSET)
    for name in _CLIENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def handler_for(form: LogFormat, stream: TextIO) -> logging.Handler:
    """Return a handler that writes lines to ``stream``."""
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=_FIELDS),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _say_why,
                structlog.processors.format_exc_info,
                _write_out,
                *_renderers(form, colors=stream.isatty()),
                _hide_secrets,
            ],
        )
    )
    return handler


class _Aside(io.StringIO):
    """Writes to a stream in a thread: whoever logs does not wait for a pipe that nobody reads."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: queue.Queue[str] = queue.Queue(_MAX_WAITING)
        self._left_out = 0
        threading.Thread(target=self._run, name="tidemark-log", daemon=True).start()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._left_out += 1
        return len(text)

    def drain(self) -> None:
        """Wait until all is written, but not for long."""
        end_s = time.monotonic() + _DRAIN_SECONDS
        while self._waiting.unfinished_tasks and time.monotonic() < end_s:
            time.sleep(_DRAIN_SECONDS / 100)

    def _run(self) -> None:
        reported = 0
        while True:
            text = self._waiting.get()
            with suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()
            self._waiting.task_done()
            if self._left_out > reported and self._waiting.empty():
                reported = self._left_out
                # The number is part of the text: each of these lines is another one.
                _log.warning(f"nobody took the log: {reported} lines were left out since the start")


_Kind = tuple[object, ...]


class _Handler(logging.StreamHandler[TextIO]):
    """Writes a fault once a minute, and then how often it came again."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._faults: dict[_Kind, logging.LogRecord] = {}
        """Those of this minute."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        status: int = getattr(record, "status", 0)
        if record.levelno >= logging.WARNING or status >= _FAULT:
            context = structlog.contextvars.get_contextvars()
            kind: _Kind = (record.name, str(record.msg), status, (record.exc_info or [None])[0])
            about: _Kind = tuple(getattr(record, name, None) for name in ("method", "route"))
            one = (*kind, *about, context.get("job"), context.get("stream"))
            # A stranger may send any number of names.
            counted = self._faults.get(one if len(self._faults) < _MAX_FAULTS else kind)
            if counted is not None:
                vars(counted)["left_out"] = getattr(counted, "left_out", 0) + 1
                return
            if not self._faults:
                timer = threading.Timer(REPEAT_SECONDS, self._end_minute)
                timer.daemon = True
                timer.start()
            brief = copy.copy(record)
            # A traceback is long, and keeps alive whatever was at work there.
            brief.exc_info = brief.exc_text = None
            if kind in self._faults:
                record = brief
            self._faults.setdefault(kind, copy.copy(brief))
            self._faults[one] = copy.copy(brief)
        super().emit(record)

    def close(self) -> None:
        """Write what was counted, and no more."""
        self._end_minute()
        if isinstance(self.stream, _Aside):
            self.stream.drain()
        super().close()

    def _end_minute(self) -> None:
        self.acquire()
        try:
            faults, self._faults = self._faults, {}
            for record in faults.values():
                if hasattr(record, "left_out"):
                    super().emit(record)
        finally:
            self.release()


def without_secrets(text: str) -> str:
    """Return ``text`` with tokens and credentials hidden."""
    return _CREDENTIALS.sub(rf"\1 {HIDDEN}", JWT.sub(HIDDEN, TOKEN.sub(HIDDEN, text)))


def _renderers(form: LogFormat, *, colors: bool) -> list[Processor]:
    if form == "console":
        return [
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
        ]
    return [structlog.processors.JSONRenderer()]


def _say_why(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Give a store that takes no writes its sentence, which says everything, and no traceback at every tick."""
    error = (line.get("exc_info") or (None, None))[1]
    if isinstance(error, StoreUnavailableError):
        del line["exc_info"]
        line["event"] = f"{line['event']}: {error.detail}"
    return line


def _write_out(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Write out what a terminal would obey in each text: names and paths may come from a stranger."""
    for name, value in line.items():
        if isinstance(value, str):
            parts = value.split("\n") if name == "exception" else [value]
            line[name] = "\n".join(map(plain, parts))
    return line


def _hide_secrets(_: WrappedLogger, __: str, line: EventDict) -> str:
    # The last processor gets the text that the renderer made.
    return without_secrets(str(line))
