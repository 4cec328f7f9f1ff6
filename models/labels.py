"""Labels of a stream: names and values by which its alerts are routed and its metrics are grouped."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_LABELS = 10
"""Maximum number of labels of one stream."""

RESERVED_LABELS = frozenset(
    {
        "alertname",
        "cluster",
        "instance",
        "job",
        "mode",
        "namespace",
        "objective",
        "partition",
        "severity",
        "sloth_id",
        "sloth_service",
        "sloth_severity",
        "sloth_slo",
        "spark_job",
        "stream",
    }
)
"""Names that alerts and metrics have for their own labels."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


def label_name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be the name of a label of a stream, None when it can."""
    if not _NAME.fullmatch(name) or name.startswith("__"):
        return (
            f"{name!r} cannot be the name of a label: it has letters, digits and underscores, at most 63, begins with "
            "no digit and not with two underscores"
        )
    if name in RESERVED_LABELS:
        return f"{name!r} is a label that alerts and metrics have of their own; choose another name"
    return None


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the labels of a stream.

    Raises:
        ValueError: when a name cannot be one.
    """
    for name in labels:
        problem = label_name_problem(name)
        if problem is not None:
            raise ValueError(f"labels: {problem}")
