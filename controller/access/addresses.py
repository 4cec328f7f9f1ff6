"""Addresses: whether only this machine reaches one, and whether a request comes from another machine."""

from __future__ import annotations

import ipaddress

__all__ = ["is_foreign_name", "is_loopback", "is_other_machine"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_other_machine(peer: str | None) -> bool:
    """Return whether ``peer`` is the address of another machine; what is no address is a socket of this one's own."""
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return not (mapped or address).is_loopback


def is_foreign_name(host_header: str | None) -> bool:
    """Return whether a request was addressed by a name that somebody else can have made point to this machine.

    A page in a browser here could then reach us as if it came from its own site (DNS rebinding). Names without a dot
    are this network's own.
    """
    name = (host_header or "").strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    name = name.removesuffix(".")
    return "." in name and not name.endswith(".localhost") and not is_loopback(name)
