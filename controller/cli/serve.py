"""``tidemark serve``: the controller."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.cli.fail import fail

if TYPE_CHECKING:
    from tidemark.controller.settings import Settings

__all__ = ["is_loopback", "register"]

SHUTDOWN_SECONDS = 10
"""How long open requests may take to end when the controller is told to stop."""


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
    ) -> None:
        """Run the controller: REST, the decision loop and the metrics, in one process."""
        given = {"host": host, "port": port, "database_url": database_url}
        _serve(_settings({name: value for name, value in given.items() if value is not None}))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _settings(given: dict[str, str | int]) -> Settings:
    from pydantic import ValidationError  # noqa: PLC0415 - the other commands start fast without it

    from tidemark.controller.settings import Settings  # noqa: PLC0415

    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        told = error.errors()[0]
        name = "_".join(map(str, told["loc"])).upper()
        fail(f"TIDEMARK_{name} is {told['input']!r}: {told['msg']}")


def _serve(settings: Settings) -> None:
    import uvicorn  # noqa: PLC0415 - the other commands start fast without it

    from tidemark.controller.app import create_app  # noqa: PLC0415
    from tidemark.controller.errors import StoreUnusableError  # noqa: PLC0415

    try:
        app = create_app(settings)
        # Told here in one line, where the lifespan of a server could only show a traceback.
        app.state.service.database.migrate()
    except StoreUnusableError as error:
        fail(error.detail)
    listener = _listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    typer.echo(f"tidemark: listening on {address}, store {app.state.service.database.name}")
    if not is_loopback(settings.host):
        typer.echo(
            f"tidemark: warning: there is no authentication yet, and others can reach {settings.host}",
            err=True,
        )
    config = uvicorn.Config(
        app, log_level=settings.log_level, access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS
    )
    watch = app.state.service.watch

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Before the server waits for open requests, which would wait for a bound to change.
            watch.release()
            await super().shutdown(sockets)

    with listener:
        Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port in use is told before anything else starts."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # The text of an error of the system may repeat the address; that of its number does not.
        told = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        fail(f"cannot listen on {host} port {port}: {told}")
