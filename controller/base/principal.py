"""Who calls and what that allows: roles and their rights, patterns of job names, and users of a proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, cast, get_args

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


EVERY_JOB = "*"
"""The pattern that matches every job."""

MAX_PATTERN_LENGTH = 200
"""Maximum length of a pattern in characters, that of a job's name."""


def matches(pattern: str, job: str) -> bool:
    """Return whether a job's name matches: ``*`` stands for any characters or none, all others for themselves.

    It takes time linear in the length of the name.
    """
    first, *rest = pattern.split(EVERY_JOB)
    if not rest:
        return pattern == job
    *middle, last = rest
    end = len(job) - len(last)
    if end < len(first) or not job.startswith(first) or not job.endswith(last):
        return False
    position = len(first)
    for part in middle:
        # The leftmost match leaves most room for the next parts.
        at = job.find(part, position, end)
        if at < 0:
            return False
        position = at + len(part)
    return True


def pattern_problem(pattern: str) -> str | None:
    """Return why ``pattern`` is invalid or can match no job; None when it is fine."""
    if not 1 <= len(pattern) <= MAX_PATTERN_LENGTH:
        return f"a pattern has 1 to {MAX_PATTERN_LENGTH} characters, this one {len(pattern)}"
    if "/" in pattern or not pattern.isprintable() or pattern != pattern.strip():
        return f"{pattern!r} matches no job: names have no slash, no unprintable character and no space at an end"
    return None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its text."""

    id: int
    """Its number."""
    name: str
    """Name of its holder; two tokens of one name may be valid at once."""
    role: Role
    """Its role."""
    jobs: tuple[str, ...]
    """Patterns of job names that it is limited to; * stands for any characters."""
    created_us: int
    """When it was made, in microseconds since the epoch."""
    created_by: str
    """Who made it."""
    expires_us: int | None
    """When it expires, in microseconds since the epoch; null for never."""
    last_used_us: int | None
    """When it was last used, to the hour, in microseconds since the epoch; null when it is not known."""
    revoked_us: int | None
    """When it was revoked, in microseconds since the epoch; null if it was not."""
    revoked_by: str | None
    """Who revoked it."""


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


_actor: ContextVar[Principal | None] = ContextVar("tidemark_actor", default=None)


def set_actor(principal: Principal) -> None:
    """Set who asks from here on in this context."""
    _actor.set(principal)


def current_actor() -> str | None:
    """Return who asked for the change; None when the controller makes it by itself."""
    principal = _actor.get()
    return None if principal is None else principal.name


def may_see(job: str) -> bool:
    """Return whether an answer may name the job to who asks."""
    principal = _actor.get()
    return principal is None or principal.sees(job)


ANYBODY = "*"
"""Means every user that the proxy authenticates."""

_MAX_USER_LENGTH = 200
"""Maximum length of a user's name in characters."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
"""A range of addresses."""


@dataclass(frozen=True, slots=True)
class GroupGrant:
    """What the members of a group may do."""

    group: str
    """Name of the group; ``*`` means everybody."""
    grant: Grant
    """The role and its reach."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that authenticates users."""

    user_header: str
    """Header with the user's name."""
    groups_header: str | None
    """Header with the user's groups, separated by commas; None for none."""
    trusted: tuple[Network, ...]
    """Addresses that it connects from; the headers of others are ignored."""
    grants: tuple[GroupGrant, ...]
    """What groups may do."""

    def trusts(self, peer: str | None) -> bool:
        """Return whether the headers of a connection from ``peer`` are trusted."""
        try:
            address = ipaddress.ip_address(peer or "")
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.trusted)

    def principal(self, users: Sequence[str], groups: Sequence[str]) -> Principal | None:
        """Return the user that the headers name; None when they name none or several.

        Args:
            users: values of the user's header.
            groups: values of the groups' header.
        """
        # With two headers of one name, one may be forged; a proxy sends all groups in one.
        if len(users) != 1 or len(groups) > 1:
            return None
        user = users[0].strip()
        if not 1 <= len(user) <= _MAX_USER_LENGTH or not user.isprintable():
            return None
        member_of = {name.strip() for value in groups for name in value.split(",")} - {"", ANYBODY} | {
            ANYBODY
        }
        return Principal(user, tuple(rule.grant for rule in self.grants if rule.group in member_of))


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse a comma-separated list of addresses and networks.

    Raises:
        ValueError: when one of them is neither.
    """
    networks = []
    for part in _parts(text):
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            raise ValueError(
                f"{part!r} is neither an address nor a network; write 10.1.2.3 or 10.1.0.0/16"
            ) from None
    return tuple(networks)


def parse_group_grants(text: str) -> tuple[GroupGrant, ...]:
    """Parse what groups may do, such as ``admins=admin, shop=operator:shop-*, *=viewer``.

    Raises:
        ValueError: when a part is not ``group=role`` or ``group=role:pattern``.
    """
    grants = []
    for part in _parts(text):
        group, equals, granted = part.rpartition("=")
        role, colon, pattern = granted.partition(":")
        if not equals or not group.strip() or role.strip() not in ROLES:
            raise ValueError(
                f"{part!r} is not group=role or group=role:pattern, with a role of {', '.join(ROLES)}"
            )
        jobs = pattern.strip() if colon else EVERY_JOB
        problem = pattern_problem(jobs)
        if problem is not None:
            raise ValueError(f"{part!r}: {problem}")
        grants.append(GroupGrant(group.strip(), Grant(cast("Role", role.strip()), (jobs,))))
    return tuple(grants)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


_REMEMBERED = 1_024
"""How many answers are remembered: the same few addresses send every report."""


@lru_cache(_REMEMBERED)
def is_loopback(host: str) -> bool:
    """Return whether ``host`` can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(_REMEMBERED)
def is_other_machine(peer: str | None) -> bool:
    """Return whether ``peer`` is the address of another machine; without an address it is a local socket."""
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_loopback


def is_foreign_name(host_header: str | None) -> bool:
    """Return whether a request used a host name that somebody else may have pointed at this machine.

    This stops DNS rebinding, by which a foreign page in a local browser could call this server. Names without a dot
    belong to the local network.
    """
    name = (host_header or "").strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    name = name.removesuffix(".")
    return "." in name and not name.endswith(".localhost") and not is_loopback(name)
