"""The one table of permissions: which right each operation asks for, and which rights each role has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

__all__ = ["OPEN_PATHS", "OPERATIONS", "RIGHTS", "ROLES", "Need", "Reach", "Right", "Role", "need_of"]

Role = Literal["viewer", "job", "operator", "admin"]
"""Roles of tokens and users."""

ROLES: tuple[Role, ...] = get_args(Role)
"""All of them."""

Right = Literal["Read", "Ask", "Report", "Operate", "Administer"]
"""Kinds of operations: read anything; ask for a bound; send reports and acknowledgements; steer; handle tokens."""

Reach = Literal["job", "list", "fleet"]
"""What an operation is about: the job in its path; a list that shows the jobs in reach; the whole fleet."""

RIGHTS: Mapping[Role, frozenset[Right]] = MappingProxyType(
    {
        "viewer": frozenset({"Read", "Ask"}),
        "job": frozenset({"Ask", "Report"}),
        "operator": frozenset({"Read", "Ask", "Operate"}),
        "admin": frozenset(get_args(Right)),
    }
)
"""The rights of each role."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation asks for."""

    right: Right
    """The right."""
    reach: Reach = "job"
    """Over what: a token that is scoped to some jobs cannot do what is about the whole fleet."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that have the right."""
        return tuple(role for role in ROLES if self.right in RIGHTS[role])


_READ, _LIST, _READ_FLEET = Need("Read"), Need("Read", "list"), Need("Read", "fleet")
_OPERATE, _OPERATE_FLEET = Need("Operate"), Need("Operate", "fleet")
_TOKENS = Need("Administer", "fleet")

OPERATIONS: Mapping[str, Need | None] = MappingProxyType(
    {
        "getLiveness": None,
        "getReadiness": None,
        # Its figures are of every job.
        "getMetrics": _READ_FLEET,
        "listJobs": _LIST,
        "getJob": _READ,
        "listFleet": _LIST,
        "getStream": _READ,
        "getSlo": _READ,
        "putSlo": _OPERATE,
        "getPolicy": _READ,
        "putPolicy": _OPERATE,
        "postReport": Need("Report"),
        "postAcknowledgement": Need("Report"),
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
        "pauseStream": _OPERATE,
        "resumeStream": _OPERATE,
        "listEvents": _LIST,
        "listStreamEvents": _READ,
        "getCurve": _READ,
        "getPreview": _READ,
        "getHistory": _READ,
        "getHeatmap": _READ,
        "listPartitions": _READ,
        "listPredictions": _READ,
        "listPins": _LIST,
        "getFleetPin": _LIST,
        "putFleetPin": _OPERATE_FLEET,
        "deleteFleetPin": _OPERATE_FLEET,
        "getJobPin": _READ,
        "putJobPin": _OPERATE,
        "deleteJobPin": _OPERATE,
        "getStreamPin": _READ,
        "putStreamPin": _OPERATE,
        "deleteStreamPin": _OPERATE,
        "listTokens": _TOKENS,
        "postToken": _TOKENS,
        "getToken": _TOKENS,
        "rotateToken": _TOKENS,
        "deleteToken": _TOKENS,
    }
)
"""By operation id what it asks for; None: open to everybody."""

OPEN_PATHS = frozenset({"/openapi.json", "/", "/page/{version}/{name:path}"})
"""Paths without an operation id that are open to everybody: the interface is no secret, and the page holds no data."""

_UNDECLARED = Need("Administer", "fleet")


def need_of(operation: str | None) -> Need | None:
    """Return what an operation asks for; one that is not in the table is the unscoped admin's alone."""
    return _UNDECLARED if operation is None else OPERATIONS.get(operation, _UNDECLARED)
