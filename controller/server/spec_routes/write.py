"""What every write of a specification takes: If-Match and a dry run, and the transaction that it is made in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from tidemark.controller.base.principal import Principal
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.etags import IfMatch
from tidemark.controller.server.http.parameters import DryRun, TheService
from tidemark.controller.server.process.service import Service
from tidemark.controller.specs.change import ChangeRequest
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class SpecWrite:
    """A write that somebody asks for."""

    service: Service
    principal: Principal
    dry_run: bool
    if_match: str | None

    @contextmanager
    def change(
        self, reason: str, job: str = "", streams: Sequence[str] = (), slo: Slo | None = None
    ) -> Iterator[ChangeRequest]:
        """Give the change and its transaction, in which a decision and the answer follow; a dry run is rolled back.

        Args:
            reason: why it is made.
            job: whose streams it decides.
            streams: which ones, as far as the request names them.
            slo: the SLO that it gives them; None where they keep theirs.
        """
        for stream in streams:
            self.service.read_ahead(job, stream, slo)
        with self.service.database.write(keep=not self.dry_run) as session:
            yield ChangeRequest(session, self.service.clock(), reason, self.if_match)
        if not self.dry_run:
            self.service.database.answers_changed()


async def _write(
    service: TheService, principal: ThePrincipal, *, dry_run: DryRun, if_match: IfMatch = None
) -> SpecWrite:
    return SpecWrite(service, principal, dry_run, if_match)


TheWrite = Annotated[SpecWrite, Depends(_write)]
"""What a request says of its write, but for the reason."""
