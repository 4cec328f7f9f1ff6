"""Network addresses: is one loopback, and does a request come from another machine?"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

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
