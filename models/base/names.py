"""Which names jobs, streams and joins may have: those that can be part of a path."""

from __future__ import annotations

MAX_LENGTH = 200
"""Greatest length of a name in characters, as in the wire types."""

ACTIONS = (":pause", ":resume")
"""Actions that follow the name of a stream in a path; no name may end with one."""


def name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be part of a path, None when it can; nearly all characters can be percent-encoded."""
    if not name or len(name) > MAX_LENGTH:
        return f"a name has 1 to {MAX_LENGTH} characters, this one {len(name)}"
    if "/" in name:
        return "a name cannot contain a slash, because it is part of a path"
    if name in {".", ".."}:
        return f"{name!r} cannot be a name, because clients and proxies resolve it as part of the path"
    if name.endswith(ACTIONS):
        return f"a name cannot end with {' or '.join(ACTIONS)}, because those are actions"
    if not name.isprintable() or name != name.strip():
        return "a name has printable characters only, and no space at its ends"
    return None
