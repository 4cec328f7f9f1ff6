"""The part of the client that reads and changes specifications: SLOs, of streams and of joins, and policies.

A change takes fields as the API names them, with shares in parts per million; the other fields stay. With ``dry_run``
nothing changes, and the answer says what would. The reason is recorded in the event. When somebody else changed the
specification at the same time, ``ChangedError`` is raised, and nothing is written. Without ``create`` a stream that is
not known is an error (``stream-not-found``), so that a slip in its name sets nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.controller.server.schemas.joins import JoinAnswer, NamedJoin
from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.tools.client.address import join_path, stream_path
from tidemark.controller.tools.client.base import BaseClient, checked


class SpecificationsClient(BaseClient):
    """Specifications of streams and joins."""

    def slo(self, job: str, stream: str) -> SloAnswer | None:
        """Return the SLO of a stream; None when it has none or is unknown."""
        found = self._read_or_none(stream_path(job, stream, "/slo"))
        return None if found is None else checked(SloAnswer, found.content)

    def change_slo(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
        create: bool = True,
    ) -> SloSet:
        """Change fields of the SLO of a stream, or set one; the answer has the consequences.

        >>> tidemark.change_slo("shop", "clicks", {"target_ppm": 999_000, "latency_cap_ms": 900_000}, dry_run=True)
        """
        where = stream_path(job, stream, "/slo")
        return self._change(where, changes, SloSet, reason=reason, dry_run=dry_run, create=create)

    def delete_slo(
        self, job: str, stream: str, *, reason: str | None = None, dry_run: bool = False
    ) -> SloSet:
        """Delete the SLO of a stream; the answer has it as it was, and the consequences."""
        where = stream_path(job, stream, "/slo")
        return self._delete(where, SloSet, reason=reason, dry_run=dry_run)

    def policy(self, job: str, stream: str) -> PolicyAnswer | None:
        """Return the policy of a stream, the default one when none was set; None when the stream is unknown."""
        found = self._read_or_none(stream_path(job, stream, "/policy"))
        return None if found is None else checked(PolicyAnswer, found.content)

    def change_policy(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
        create: bool = True,
    ) -> PolicySet:
        """Change fields of the policy of a stream; the answer has the consequences.

        >>> tidemark.change_policy("shop", "clicks", {"mode": "OnRestart"}, reason="it has watched for a week")
        """
        where = stream_path(job, stream, "/policy")
        return self._change(where, changes, PolicySet, reason=reason, dry_run=dry_run, create=create)

    def delete_policy(
        self, job: str, stream: str, *, reason: str | None = None, dry_run: bool = False
    ) -> PolicySet:
        """Delete the policy of a stream, so that the default one holds; the answer has it as it was."""
        where = stream_path(job, stream, "/policy")
        return self._delete(where, PolicySet, reason=reason, dry_run=dry_run)

    def joins(self, job: str) -> Iterator[NamedJoin]:
        """Return the joins of a job by name, each with its SLO and how it is doing."""
        return self._items(join_path(job), "joins", NamedJoin)

    def join(self, job: str, join: str) -> JoinAnswer:
        """Return the SLO on the output of a join, and how the join is doing."""
        return self._get(join_path(job, join), JoinAnswer)

    def change_join(
        self,
        job: str,
        join: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> JoinAnswer:
        """Change fields of the SLO on the output of a join, or set one.

        >>> tidemark.change_join("shop", "attribution", {"streams": ["clicks", "views"], "target_ppm": 990_000})
        """
        return self._change(join_path(job, join), changes, JoinAnswer, reason=reason, dry_run=dry_run)

    def delete_join(
        self, job: str, join: str, *, reason: str | None = None, dry_run: bool = False
    ) -> JoinAnswer:
        """Delete the SLO on the output of a join; the answer has it as it was."""
        return self._delete(join_path(job, join), JoinAnswer, reason=reason, dry_run=dry_run)
