"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def distribution_version() -> str:
    """Return the version of the installed distribution; ``"unknown"`` when run from a folder not installed."""
    try:
        return version("tidemark")
    except PackageNotFoundError:
        return "unknown"
