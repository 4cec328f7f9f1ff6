"""A PostgreSQL server of the tests' own: made in a folder of its own, on a free loopback port, and gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from support.patience import PATIENCE_S

__all__ = [
    "Postgres",
    "find_postgres",
    "free_port",
    "lock_waits",
    "postgres_or_skip",
    "restartable_postgres",
    "running_postgres",
]


def find_postgres() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest version there is; None when there is none."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    # Debian keeps them off PATH.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def postgres_or_skip() -> Path:
    """Return the folder of PostgreSQL's programs. The test is skipped where there are none, but never in CI."""
    programs = find_postgres()
    if programs is None:
        assert os.environ.get("CI") != "true", "CI has no PostgreSQL: `make services` installs it"
        pytest.skip("there is no PostgreSQL here; `make services` installs it")
    return programs


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    url: str
    """Its URL."""
    restart: Callable[[], None]
    """Stop it as a crash would, without a goodbye to anybody, and start it again."""
    away: Callable[[], AbstractContextManager[None]]
    """Do the same, with whatever is done within the context between the two."""
    promote: Callable[[], None]
    """Make a standby take writes."""


def lock_waits(connection: Connection | Session) -> int:
    """Return how many transactions of the server wait for another one."""
    return int(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())


@contextmanager
def running_postgres(programs: Path, *, as_installed: bool = False) -> Iterator[str]:
    """Start an empty server and give its URL; it ends with the context.

    Args:
        programs: the folder of PostgreSQL's programs.
        as_installed: with the settings that it has when it is installed, for benches; by default with those that take
            the least time for tests.
    """
    with restartable_postgres(programs, as_installed=as_installed) as server:
        yield server.url


@contextmanager
def restartable_postgres(
    programs: Path, primary: Postgres | None = None, *, as_installed: bool = False
) -> Iterator[Postgres]:
    """Start an empty server, or a standby of ``primary``; it ends with the context."""
    # Not pytest's folder: PostgreSQL refuses to run as root, and another user cannot enter that.
    folder = Path(tempfile.mkdtemp(prefix="tidemark-postgres-"))
    try:
        become = _unprivileged(folder)
        data, port = folder / "data", free_port()
        patience = ("-t", str(round(PATIENCE_S)))
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
        if not as_installed:
            # Its workers would go from one of the tests' many databases to the next.
            options += " -c fsync=off -c autovacuum=off"
            # To compile a statement costs more than it gives where tables are small, and no page is ever half written.
            options += " -c jit=off -c full_page_writes=off"
        make: list[str | Path] = [
            programs / "initdb",
            "-U",
            "tidemark",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        if primary is not None:
            conninfo = primary.url.replace("+psycopg", "")
            make = [programs / "pg_basebackup", "-d", conninfo, "-R", "--checkpoint=fast", "--no-sync"]
        run: list[list[str | Path]] = [
            [*make, "-D", data],
            [programs / "pg_ctl", "-D", data, "-w", *patience, "-l", folder / "log", "-o", options, "start"],
        ]
        for command in run:
            _run(become, command)
        stop: list[str | Path] = [programs / "pg_ctl", "-D", data, "-m", "immediate", *patience, "stop"]

        @contextmanager
        def away() -> Iterator[None]:
            _run(become, stop)
            try:
                yield
            finally:
                _run(become, run[1])

        def restart() -> None:
            with away():
                pass

        def promote() -> None:
            _run(become, [programs / "pg_ctl", "-D", data, "-w", *patience, "promote"])

        try:
            yield Postgres(f"postgresql+psycopg://tidemark@127.0.0.1:{port}/postgres", restart, away, promote)
        finally:
            _run(become, stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(become: list[str], command: list[str | Path]) -> None:
    # Its output goes to a file: a server that inherits a pipe would keep it open for ever.
    with tempfile.TemporaryFile("w+") as body:
        done = subprocess.run(
            [*become, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=body,
            stderr=body,
            check=False,
            cwd="/",
        )
        body.seek(0)
        assert done.returncode == 0, body.read()


def _unprivileged(folder: Path) -> list[str]:
    """Return what to put before a command so that it does not run as root, and hand ``folder`` to that user."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam("postgres")  # made by the server's package
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def free_port() -> int:
    """Return a port of loopback that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
