"""The table of permissions: the right that each operation requires, and the rights of each role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Role = Literal["viewer", "job", "operator", "admin"]
"""Roles of tokens and users."""

ROLES: tuple[Role, ...] = get_args(Role)
"""All of them."""

Right = Literal["Read", "Ask", "Recall", "Report", "Operate", "Administer"]
"""Kinds of operations: read all; ask for a bound or missing batches; read back reports; send reports; operate;
administer tokens."""

Reach = Literal["job", "list", "fleet"]
"""What an operation is about: the job that it names; a list that shows the jobs in reach; the whole fleet."""

RIGHTS: Mapping[Role, frozenset[Right]] = MappingProxyType(
    {
        "viewer": frozenset({"Read", "Ask", "Recall"}),
        "job": frozenset({"Ask", "Recall", "Report"}),
        "operator": frozenset({"Read", "Ask", "Recall", "Operate"}),
        "admin": frozenset(get_args(Right)),
    }
)
"""The rights of each role."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation requires."""

    right: Right
    """The right."""
    reach: Reach = "job"
    """Its reach: a token that is limited to some jobs cannot do what is about the whole fleet."""
    without_job: Reach | None = None
    """Its reach when the query names no job; None for operations that take no job from the query."""

    def over(self, job: str | None) -> Reach:
        """Return the reach of a request that names ``job``."""
        return self.reach if job is not None or self.without_job is None else self.without_job

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that have the right."""
        return tuple(role for role in ROLES if self.right in RIGHTS[role])


_READ, _LIST, _READ_FLEET = Need("Read"), Need("Read", "list"), Need("Read", "fleet")
_OPERATE = Need("Operate")
_TOKENS = Need("Administer", "fleet")

OPERATIONS: Mapping[str, Need | None] = MappingProxyType(
    {
        "getLiveness": None,
        "getReadiness": None,
        # Metrics cover every job.
        "getMetrics": _READ_FLEET,
        # Every role may know what it may do.
        "getCaller": Need("Ask", without_job="list"),
        "listJobs": _LIST,
        "getJob": _READ,
        "listFleet": _LIST,
        "getStream": _READ,
        # It cannot be undone.
        "deleteStream": Need("Administer"),
        "getSlo": _READ,
        "putSlo": _OPERATE,
        "deleteSlo": _OPERATE,
        "getPolicy": _READ,
        "putPolicy": _OPERATE,
        "deletePolicy": _OPERATE,
        "listGates": _LIST,
        "listJoins": _READ,
        "getJoin": _READ,
        "putJoin": _OPERATE,
        "deleteJoin": _OPERATE,
        "postReport": Need("Report"),
        "postAcknowledgement": Need("Report"),
        "postLateRows": Need("Report"),
        "listMissingBatches": Need("Ask"),
        # Pages of megabytes: these requests count like those of people.
        "listReportBodies": Need("Recall"),
        "listReports": _READ,
        "getReport": _READ,
        "listAcknowledgements": _READ,
        "listBounds": _READ,
        "getBound": Need("Ask"),
        "listRollouts": _LIST,
        "listStreamRollouts": _READ,
        "getRollout": _READ,
        "approveRollout": _OPERATE,
        "discardRollout": _OPERATE,
        "rollBackRollout": _OPERATE,
        "liftVeto": _OPERATE,
        "pauseStream": _OPERATE,
        "resumeStream": _OPERATE,
        "listEvents": _LIST,
        "listStreamEvents": _READ,
        "getCurve": _READ,
        "getPreview": _READ,
        "getLost": _READ,
        "getHistory": _READ,
        "getHeatmap": _READ,
        "getPartitionCurve": _READ,
        "getBudget": _READ,
        "listPartitions": _READ,
        "listPredictions": _READ,
        "listPins": _LIST,
        "getPin": Need("Read", without_job="list"),
        "putPin": Need("Operate", without_job="fleet"),
        "deletePin": Need("Operate", without_job="fleet"),
        "listTokens": _TOKENS,
        "postToken": _TOKENS,
        "getToken": _TOKENS,
        "rotateToken": _TOKENS,
        "deleteToken": _TOKENS,
    }
)
"""By operation id, what it requires; None: open to everybody."""

OPEN_PATHS = frozenset({"/openapi.json", "/", "/page/{version}/{name:path}", "/runbooks/{name}"})
"""Paths without an operation id, open to everybody: the document is public, and page and runbooks hold no data."""

_UNDECLARED = Need("Administer", "fleet")


def need_of(operation: str | None) -> Need | None:
    """Return what an operation requires; one that is not in the table is for unscoped admins only."""
    return _UNDECLARED if operation is None else OPERATIONS.get(operation, _UNDECLARED)
