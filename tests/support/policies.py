"""Policies for streams that live for seconds: what the defaults would keep waiting for ten hours and a person."""

from __future__ import annotations

from typing import Any

__all__ = ["at_once"]


def at_once(mode: str = "OnRestart", **changes: Any) -> dict[str, Any]:
    """Return a policy that asks for no evidence and no person and narrows in one step, but for ``changes``."""
    return {
        "mode": mode,
        "approval": "none",
        "evidence_ms": 0,
        "evidence_windows": 0,
        "max_narrowing_ppm": None,
        **changes,
    }
