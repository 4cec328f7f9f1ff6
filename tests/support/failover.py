"""PostgreSQL with a synchronous standby, as operators run it: one URL names both, and it fails over when asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from support.postgres import Postgres, restartable_postgres

__all__ = ["ReplicatedPostgres", "replicated_postgres"]


class ReplicatedPostgres:
    """A primary and its standby.

    Args:
        primary: the primary.
        standby: its standby.
        gone: ends with both; what has failed is started for it, so that it can be stopped.
    """

    def __init__(self, primary: Postgres, standby: Postgres, gone: ExitStack) -> None:
        self._primary, self._standby, self._gone = primary, standby, gone
        parsed = make_url(primary.url)
        hosts = ",".join(f"{one.host}:{one.port}" for one in (parsed, make_url(standby.url)))
        self.url = f"{parsed.drivername}://{parsed.username}@{hosts}/{parsed.database}"
        """Both, for Tidemark, which uses the one that takes writes."""

    @property
    def primary_url(self) -> str:
        """The one that takes writes now."""
        return self._primary.url

    def restart(self) -> None:
        """Stop the primary as a crash would, and start it again."""
        self._primary.restart()

    def away(self) -> AbstractContextManager[None]:
        """Stop the primary as long as the context lasts."""
        return self._primary.away()

    def fail_over(self) -> None:
        """Stop the primary for good; its standby takes its place, and has no standby itself."""
        self._gone.enter_context(self._primary.away())
        self._standby.promote()
        self._primary = self._standby


@contextmanager
def replicated_postgres(programs: Path) -> Iterator[ReplicatedPostgres]:
    """Start an empty primary and its standby, which has whatever is committed; they end with the context."""
    with (
        restartable_postgres(programs) as primary,
        restartable_postgres(programs, primary) as standby,
        ExitStack() as gone,
    ):
        engine = create_engine(primary.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            # Set once the standby has its copy, so that it commits alone when it is promoted.
            connection.execute(text("ALTER SYSTEM SET synchronous_standby_names = '*'"))
            connection.execute(text("SELECT pg_reload_conf()"))
        engine.dispose()
        yield ReplicatedPostgres(primary, standby, gone)
