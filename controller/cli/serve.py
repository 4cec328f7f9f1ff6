"""``tidemark serve``: the controller."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.access.addresses import is_loopback
from tidemark.controller.cli.fail import fail
from tidemark.controller.cli.settings import ConfigOption, settings_in_force, show_settings

if TYPE_CHECKING:
    from tidemark.controller.service import Service
    from tidemark.controller.settings import Settings

__all__ = ["register"]

_log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 10
"""How long open requests may take to end when the controller is told to stop."""

GC_THRESHOLDS = (50_000, 20, 20)
"""How many objects of each generation are made before Python looks for cycles among them."""

SWITCH_SECONDS = 0.0005
"""How long a thread computes while another waits for the interpreter: a report waits for it several times over.

Python's default is ten times that, and a stream that is looked at meanwhile has much to compute.
"""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("serve")
    def serve(
        host: Annotated[str | None, typer.Option(help="Address to listen on (TIDEMARK_HOST).")] = None,
        port: Annotated[
            int | None,
            typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one (TIDEMARK_PORT)."),
        ] = None,
        database_url: Annotated[
            str | None, typer.Option(help="Where the store is, a SQLAlchemy URL (TIDEMARK_DATABASE_URL).")
        ] = None,
        config: ConfigOption = None,
        *,
        check: Annotated[
            bool, typer.Option("--check", help="Show the settings in force and their sources, and end.")
        ] = False,
    ) -> None:
        """Run the controller: REST, the decision loop and the metrics, in one process."""
        given = {"host": host, "port": port, "database_url": database_url}
        found = settings_in_force({name: value for name, value in given.items() if value is not None}, config)
        if check:
            show_settings(found)
        else:
            _serve(found.settings)


def _serve(settings: Settings) -> None:
    import uvicorn  # noqa: PLC0415 - the other commands start fast without it

    from tidemark.controller.access.first_tokens import FirstTokensError, take_first_tokens  # noqa: PLC0415
    from tidemark.controller.app import create_app  # noqa: PLC0415
    from tidemark.controller.errors import StoreUnusableError, TokenConflictError  # noqa: PLC0415
    from tidemark.controller.runtime.logs import configure_logs  # noqa: PLC0415

    try:
        app = create_app(settings)
        # Told here in one line, where the lifespan of a server could only show a traceback.
        service: Service = app.state.service
        service.database.migrate()
        take_first_tokens(service.database, settings.first_tokens, service.clock())
    except FirstTokensError as error:
        fail(f"TIDEMARK_FIRST_TOKENS: {error}")
    except (StoreUnusableError, TokenConflictError) as error:
        fail(error.detail)
    _check_access(service)
    listener = _listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    typer.echo(f"tidemark: listening on {address}, store {app.state.service.database.name}")
    configure_logs(settings.log_level, settings.log_format)
    _tell_access(service)
    config = uvicorn.Config(
        app,
        # Its lines go where ours go.
        log_config=None,
        access_log=False,
        # Who may say where a request comes from is ours to decide (TIDEMARK_PROXY_ADDRESSES).
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    watch = app.state.service.watch

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Before the server waits for open requests, which would wait for a bound to change. From here on it says
            # that it is not ready, while it still serves those who have not heard.
            watch.release()
            await asyncio.sleep(settings.drain_seconds)
            await super().shutdown(sockets)

    # A report is thousands of numbers. By Python's default all that lives would be looked through every few reports,
    # for cycles that are not there: three times the work of reading one.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    # The server sends itself the signal once more when all has ended well: that is no reason to end with another code.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with listener:
        Server(config).run(sockets=[listener])


def _check_access(service: Service) -> None:
    """End with one line where others could reach a controller that asks nobody who they are."""
    service.authenticator.refresh()
    if not (
        service.authenticator.has_tokens or service.authenticator.proxy or is_loopback(service.settings.host)
    ):
        fail(
            f"{service.settings.host} can be reached by others, and there is no token yet. Make one, `tidemark token "
            "create root --role admin --database-url ...`, or name a folder of them in TIDEMARK_FIRST_TOKENS, or set "
            "TIDEMARK_PROXY_USER_HEADER, or listen on 127.0.0.1"
        )


def _tell_access(service: Service) -> None:
    authenticator = service.authenticator
    if authenticator.open:
        _log.warning("no token is set: everybody on this machine may do everything (tidemark token create)")
    elif not authenticator.live and authenticator.proxy is None:
        _log.warning(
            "all tokens have ended, so nobody is let in; "
            "make one: tidemark token create root --role admin --database-url ..."
        )


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port in use is told before anything else starts."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # The text of an error of the system may repeat the address; that of its number does not.
        found = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        fail(f"cannot listen on {host} port {port}: {found}")
