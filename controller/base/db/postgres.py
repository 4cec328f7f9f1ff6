"""Connections to PostgreSQL of which every wait ends: for a connection, for an answer, for a server that takes writes.

A server that is gone may leave connections open that never answer, while what stands between acknowledges each packet.
So the server ends a statement in time, locks included, and an answer that has not come by then is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import psycopg

from tidemark.controller.base.background import in_thread
from tidemark.models.base.text import format_number

_STATEMENT_SECONDS = 7
"""How long a statement may take."""

_CONNECT_SECONDS = 10.0
"""How long it may take to find a server, at any of its hosts and with the look-up of their names."""

MIGRATION_SECONDS = 3_600.0
"""How long a statement of a migration may take, which can rewrite a table or wait for another replica's."""

# A process that stops in the middle of a transaction blocks others for at most this long. Compiling the alerts' query
# to machine code, which PostgreSQL does where it overrates a query, takes seconds, and running it milliseconds.
_OPTIONS = f"-c statement_timeout={_STATEMENT_SECONDS}s -c idle_in_transaction_session_timeout=15s -c jit=off"

_DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": 3,
    "fallback_application_name": "tidemark",
    # For what may take long: the kernel ends a wait for a peer that is gone.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer does not come in time, or its server takes no writes any more."""

    answer_seconds = _STATEMENT_SECONDS + 1.0
    """How long it waits for an answer."""

    def wait(self, gen: Any, *options: Any, **named: Any) -> Any:
        """Wait as ``psycopg`` does, but not for ever."""
        try:
            return super().wait(self._within(gen), *options, **named)
        except psycopg.errors.ReadOnlySqlTransaction:
            self.close()
            raise

    def _within(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        end_s = time.monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > end_s:
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {format_number(self.answer_seconds)} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(parameters: Mapping[str, Any]) -> LimitedConnection:
    """Return a new connection, of several hosts to one that takes writes, with the password that its file has now.

    Raises:
        psycopg.OperationalError: when there is none in time.
    """
    outcome = in_thread(lambda: _connect({**_DEFAULTS, **parameters}))
    wait([outcome], _CONNECT_SECONDS)
    if outcome.done():
        return outcome.result()
    outcome.add_done_callback(_close)
    raise psycopg.OperationalError(f"no connection within {format_number(_CONNECT_SECONDS)} s")


def _connect(parameters: dict[str, Any]) -> LimitedConnection:
    parameters["options"] = f"{_OPTIONS} {parameters.get('options', '')}"
    if "," in parameters.get("host", ""):
        parameters.setdefault("target_session_attrs", "read-write")
    file = parameters.pop("password_file", None)
    if file is not None:
        try:
            parameters["password"] = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise psycopg.OperationalError(f"password file {file}: {error}") from None
    return LimitedConnection.connect(**parameters)


def _close(late: Future[LimitedConnection]) -> None:
    if late.exception() is None:
        late.result().close()
