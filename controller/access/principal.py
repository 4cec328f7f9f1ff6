"""The caller of a request: a name, and what it may do to which jobs."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.controller.access.job_patterns import EVERY_JOB, matches
from tidemark.controller.access.roles import RIGHTS, Need, Right, Role


@dataclass(frozen=True, slots=True)
class Grant:
    """A role over the jobs that some patterns match."""

    role: Role
    """The role."""
    jobs: tuple[str, ...] = (EVERY_JOB,)
    """Patterns of job names; a job that matches one of them is in reach."""

    @property
    def whole(self) -> bool:
        """Whether every job is in reach, future ones too."""
        return EVERY_JOB in self.jobs

    def reaches(self, job: str) -> bool:
        """Return whether the job is in reach."""
        return any(matches(pattern, job) for pattern in self.jobs)


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or program that calls."""

    name: str
    """Name in events and logs."""
    grants: tuple[Grant, ...]
    """What it may do: a user of several groups has several grants."""
    token_id: int | None = None
    """Number of the token that it sent; None without one."""

    @property
    def is_loopback(self) -> bool:
        """Whether it was authenticated without credentials."""
        return self is LOOPBACK

    @property
    def role(self) -> Role | None:
        """The role with the most rights; None without a grant."""
        return max(
            (grant.role for grant in self.grants), key=lambda role: (len(RIGHTS[role]), role), default=None
        )

    def has(self, right: Right) -> bool:
        """Return whether it has the right over any jobs."""
        return any(right in RIGHTS[grant.role] for grant in self.grants)

    def may(self, need: Need, job: str | None) -> bool:
        """Return whether it may do what requires ``need``, to ``job`` if the request names one."""
        return any(need.right in RIGHTS[grant.role] and _in_reach(need, grant, job) for grant in self.grants)

    def sees(self, job: str) -> bool:
        """Return whether lists may show it the job."""
        return any("Read" in RIGHTS[grant.role] and grant.reaches(job) for grant in self.grants)

    @property
    def sees_all(self) -> bool:
        """Whether lists may show it every job."""
        return any("Read" in RIGHTS[grant.role] and grant.whole for grant in self.grants)


LOOPBACK = Principal("loopback", (Grant("admin"),))
"""Callers on this machine while there is no token and no proxy."""


def _in_reach(need: Need, grant: Grant, job: str | None) -> bool:
    reach = need.over(job)
    if reach == "fleet":
        return grant.whole
    return reach == "list" or (job is not None and grant.reaches(job))
