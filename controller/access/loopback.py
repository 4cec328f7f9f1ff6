"""Addresses: whether only this machine reaches one, and whether a request comes from another machine."""

from __future__ import annotations

import ipaddress

__all__ = ["is_loopback", "is_other_machine"]


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
