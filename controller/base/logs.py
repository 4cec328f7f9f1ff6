"""The log: one line an event, for people or as JSON, the web server's lines included.

Every line carries its context (request, job, stream, caller). Tokens are never logged: whatever looks like one is
hidden.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tidemark.controller.base.errors import StoreUnavailableError
from tidemark.controller.base.settings import LogFormat, LogLevel
from tidemark.controller.base.token_format import TOKEN

HIDDEN = "[hidden]"
"""Replaces a secret."""

_FIELDS = frozenset({"method", "route", "status", "duration_ms"})
"""Fields of a line beside its text and its context."""

_CREDENTIALS = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+")
"""Credentials as in a header, those of other systems too."""

_SERVER_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access")

_CLIENT_LOGGERS = ("httpx", "httpcore")
"""They would log the address of each request: whoever knows a webhook's may write to it."""


def configure_logs(level: LogLevel, form: LogFormat, stream: TextIO | None = None) -> None:
    """Make all loggers of this process write to ``stream``, by default to standard error."""
    handler = handler_for(form, sys.stderr if stream is None else stream)
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
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _say_why,
                *_renderers(form, colors=stream.isatty()),
                _hide_secrets,
            ],
        )
    )
    return handler


def without_secrets(text: str) -> str:
    """Return ``text`` with tokens and credentials hidden."""
    return _CREDENTIALS.sub(rf"\1 {HIDDEN}", TOKEN.sub(HIDDEN, text))


def _renderers(form: LogFormat, *, colors: bool) -> list[Processor]:
    if form == "console":
        # Tracebacks without the values of variables, which may be secret.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _say_why(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Give a store that takes no writes its sentence, which says everything, and no traceback at every tick."""
    error = (line.get("exc_info") or (None, None))[1]
    if isinstance(error, StoreUnavailableError):
        del line["exc_info"]
        line["event"] = f"{line['event']}: {error.detail}"
    return line


def _hide_secrets(_: WrappedLogger, __: str, line: EventDict) -> str:
    # The last processor gets the text that the renderer made.
    return without_secrets(str(line))
