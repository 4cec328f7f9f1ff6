"""The part of the client that reads and changes specifications: SLOs, of streams and of joins, and policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemark.controller.api.schemas.joins import JoinAnswer, NamedJoin
from tidemark.controller.api.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.client.address import join_path, stream_path
from tidemark.controller.client.base import BaseClient, checked


class SpecificationsClient(BaseClient):
    """Specifications of streams and joins."""

    def slo(self, job: str, stream: str) -> SloAnswer | None:
        """Return the SLO of a stream; None when it has none or is unknown."""
        found = self._read_or_none(stream_path(job, stream, "/slo"))
        return None if found is None else checked(SloAnswer, found)

    def policy(self, job: str, stream: str) -> PolicyAnswer | None:
        """Return the policy of a stream, the default one when none was set; None when the stream is unknown."""
        found = self._read_or_none(stream_path(job, stream, "/policy"))
        return None if found is None else checked(PolicyAnswer, found)

    def change_slo(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> SloSet:
        """Change fields of the SLO of a stream, or set one; the other fields stay. The answer has the consequences.

            >>> tidemark.change_slo("shop", "clicks", {"target_ppm": 999_000, "latency_cap_ms": 900_000}, dry_run=True)

        Args:
            job: name of the job.
            stream: name of the stream.
            changes: fields as the API names them; shares are in parts per million.
            reason: why, recorded in the event.
            dry_run: change nothing, only answer what would change.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is written.
        """
        where = stream_path(job, stream, "/slo")
        return self._change(where, changes, SloSet, reason=reason, dry_run=dry_run)

    def change_policy(
        self,
        job: str,
        stream: str,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> PolicySet:
        """Change fields of the policy of a stream; the other fields stay. The answer has the consequences.

            >>> tidemark.change_policy("shop", "clicks", {"mode": "OnRestart"}, reason="it has watched for a week")

        Args:
            job: name of the job.
            stream: name of the stream.
            changes: fields as the API names them.
            reason: why, recorded in the event.
            dry_run: change nothing, only answer what would change.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is written.
        """
        where = stream_path(job, stream, "/policy")
        return self._change(where, changes, PolicySet, reason=reason, dry_run=dry_run)

    def delete_slo(
        self, job: str, stream: str, *, reason: str | None = None, dry_run: bool = False
    ) -> SloSet:
        """Delete the SLO of a stream; the answer has it as it was, and the consequences.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is deleted.
        """
        where = stream_path(job, stream, "/slo")
        return self._delete_spec(where, SloSet, reason=reason, dry_run=dry_run)

    def delete_policy(
        self, job: str, stream: str, *, reason: str | None = None, dry_run: bool = False
    ) -> PolicySet:
        """Delete the policy of a stream, so that the default one holds; the answer has it as it was.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is deleted.
        """
        where = stream_path(job, stream, "/policy")
        return self._delete_spec(where, PolicySet, reason=reason, dry_run=dry_run)

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
        """Change fields of the SLO on the output of a join, or set one; the other fields stay.

            >>> tidemark.change_join("shop", "attribution", {"streams": ["clicks", "views"], "target_ppm": 990_000})

        Args:
            job: name of the job.
            join: name of the join.
            changes: fields as the API names them; shares are in parts per million.
            reason: why, recorded in the events of its streams.
            dry_run: change nothing, only answer what would change.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is written.
        """
        return self._change(join_path(job, join), changes, JoinAnswer, reason=reason, dry_run=dry_run)

    def delete_join(
        self, job: str, join: str, *, reason: str | None = None, dry_run: bool = False
    ) -> JoinAnswer:
        """Delete the SLO on the output of a join; the answer has it as it was.

        Raises:
            ChangedError: when somebody else changed it at the same time; then nothing is deleted.
        """
        return self._delete_spec(join_path(job, join), JoinAnswer, reason=reason, dry_run=dry_run)
