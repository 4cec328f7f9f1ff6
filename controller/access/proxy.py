"""An authenticating proxy: what its headers say, and which peers may send them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tidemark.controller.access.job_patterns import EVERY_JOB, pattern_problem
from tidemark.controller.access.principal import Grant, Principal
from tidemark.controller.access.roles import ROLES, Role

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
    found = []
    for part in _parts(text):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError:
            raise ValueError(
                f"{part!r} is neither an address nor a network; write 10.1.2.3 or 10.1.0.0/16"
            ) from None
    return tuple(found)


def parse_group_grants(text: str) -> tuple[GroupGrant, ...]:
    """Parse what groups may do, such as ``admins=admin, shop=operator:shop-*, *=viewer``.

    Raises:
        ValueError: when a part is not ``group=role`` or ``group=role:pattern``.
    """
    found = []
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
        found.append(GroupGrant(group.strip(), Grant(cast("Role", role.strip()), (jobs,))))
    return tuple(found)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
