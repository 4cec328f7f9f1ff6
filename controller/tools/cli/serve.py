"""``tidemark serve``: the controller."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemark.controller.base.principal import is_loopback
from tidemark.controller.tools.cli.shape import fail_usage
from tidemark.controller.tools.cli.store import settings_in_force

if TYPE_CHECKING:
    from tidemark.controller.base.settings import Settings
    from tidemark.controller.server.process.service import Service

_log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 10
"""How long open requests may take to end when the controller is stopped."""

_GC_THRESHOLDS = (50_000, 20, 20)
"""How many new objects of each generation start a search for cycles among them."""

_SWITCH_SECONDS = 0.0005
"""How long a thread computes while another waits for the interpreter.

A report waits several times, while the decision on another stream computes; Python's default is ten times longer.
"""


def serve(host: str | None, port: int | None, database_url: str | None, config: Path | None) -> None:
    """Run the controller: the REST API, the decision loop and the metrics, in one process."""
    options = {"host": host, "port": port, "database_url": database_url}
    configuration = settings_in_force(
        {name: value for name, value in options.items() if value is not None}, config
    )
    with ExitStack() as closed_at_end:
        _serve(configuration.settings, closed_at_end)


def _serve(settings: Settings, closed_at_end: ExitStack) -> None:
    import uvicorn  # noqa: PLC0415 - --help starts fast without it

    from tidemark.controller.base.background import in_thread  # noqa: PLC0415
    from tidemark.controller.base.errors import StoreUnusableError, TokenConflictError  # noqa: PLC0415
    from tidemark.controller.base.logs import configure_logs  # noqa: PLC0415
    from tidemark.controller.base.slow_requests import TimedProtocol  # noqa: PLC0415
    from tidemark.controller.server.access.token_store import FirstTokensError, take_first_tokens  # noqa: PLC0415
    from tidemark.controller.server.app import create_app  # noqa: PLC0415

    try:
        app = create_app(settings)
        service: Service = app.state.service
        # Also of a server that does not start: the next one would be refused a store that was not closed.
        closed_at_end.enter_context(closing(service.database))
        # Checked here, to end with one line; in the lifespan of the server it would be a traceback.
        service.database.migrate()
        take_first_tokens(service.database, settings.first_tokens, service.clock())
    except FirstTokensError as error:
        fail_usage(f"TIDEMARK_FIRST_TOKENS: {error}")
    except (StoreUnusableError, TokenConflictError) as error:
        fail_usage(error.detail)
    _check_access(service)
    listener = _listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    click.echo(
        f"tidemark: listening on {address}, where the page is too; store {app.state.service.database.name}"
    )
    job = f"--conf spark.tidemark.job=JOB --conf spark.tidemark.controller.url={address}"
    click.echo(f"tidemark: next: spark-submit {job} ..., then tidemark doctor JOB")
    configure_logs(settings.log_level, settings.log_format)
    _warn_of_access(service)
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        # The server logs through our configuration.
        log_config=None,
        access_log=False,
        # TIDEMARK_PROXY_ADDRESSES decides which proxies are trusted.
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    watch, leases = service.watch, service.decider.leases

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Before the server waits for open requests: a watch of a bound would not end by itself. From here on the
            # controller reports that it is not ready, and still serves clients that have not noticed.
            watch.release()
            # Others take its streams while it still decides them; should the store fail, the leases run out.
            in_thread(leases.leave)
            await asyncio.sleep(settings.drain_seconds)
            await super().shutdown(sockets)

    # A report is thousands of numbers. By default Python would search all objects every few reports for cycles that are
    # not there: three times the work of reading a report.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    # After a clean end the server sends itself the signal again, which must not change the exit code.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with listener:
        Server(config).run(sockets=[listener])


def _check_access(service: Service) -> None:
    """End with one line when others could reach a controller that requires no credentials."""
    service.authenticator.refresh()
    if not (
        service.authenticator.has_tokens
        or service.authenticator.trusts_others
        or is_loopback(service.settings.host)
    ):
        fail_usage(
            f"{service.settings.host} can be reached by others, and there is no token yet. Create one, `tidemark token "
            "create root --role admin --database-url ...`, or name a folder of them in TIDEMARK_FIRST_TOKENS, or set "
            "TIDEMARK_PROXY_USER_HEADER or TIDEMARK_ISSUERS_FILE, or listen on 127.0.0.1"
        )


def _warn_of_access(service: Service) -> None:
    authenticator = service.authenticator
    if authenticator.open:
        _log.warning("no token is set: everybody on this machine may do everything (tidemark token create)")
    elif not authenticator.live and not authenticator.trusts_others:
        _log.warning(
            "all tokens have expired or are revoked, so every call is rejected; "
            "create one: tidemark token create root --role admin --database-url ..."
        )
    settings = service.settings
    if (
        (authenticator.has_tokens or authenticator.issuers.by_name)
        and not is_loopback(settings.host)
        and not settings.public_url.startswith("https:")
    ):
        _log.warning(
            "tokens come over plain HTTP, which this controller speaks alone: anybody on the way can read them; put a "
            "proxy with TLS in front of it, and its address, https://..., into TIDEMARK_PUBLIC_URL"
        )


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port in use ends the command before anything else starts."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # The error's own text may repeat the address; the text of its number does not.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        fail_usage(f"cannot listen on {host} port {port}: {why}; --port takes another one")
