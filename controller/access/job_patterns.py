"""Patterns of job names: which jobs a credential reaches."""

from __future__ import annotations

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
        found = job.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


def pattern_problem(pattern: str) -> str | None:
    """Return why ``pattern`` is invalid or can match no job; None when it is fine."""
    if not 1 <= len(pattern) <= MAX_PATTERN_LENGTH:
        return f"a pattern has 1 to {MAX_PATTERN_LENGTH} characters, this one {len(pattern)}"
    if "/" in pattern or not pattern.isprintable() or pattern != pattern.strip():
        return f"{pattern!r} matches no job: names have no slash, no unprintable character and no space at an end"
    return None
