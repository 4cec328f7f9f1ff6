"""The preference ``wait`` of a request (RFC 7240): for how long its answer may be held back."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

__all__ = ["LONGEST_WAIT_SECONDS", "Prefer", "wait_seconds"]

LONGEST_WAIT_SECONDS = 60
"""Longest that an answer is held back: proxies commonly give up on a silent connection after a minute or more."""

Prefer = Annotated[
    list[str] | None,
    Header(
        description="wait=N holds the answer back until the ETag in If-None-Match is no longer current, for at most N "
        f"seconds (at most {LONGEST_WAIT_SECONDS}); then it is 304.",
        examples=[["wait=30"]],
    ),
]
"""The Prefer header, which may come more than once."""

_WAIT = re.compile(r'wait\s*=\s*(?:"(\d{1,9})"|(\d{1,9}))', re.IGNORECASE)


def wait_seconds(headers: list[str] | None) -> int | None:
    """Return for how many seconds the answer may be held back, None where no ``wait`` can be read.

    The first ``wait`` counts, as the RFC has it, and what cannot be read is as if it were not there.
    """
    for preference in ",".join(headers or ()).split(","):
        found = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if found is not None:
            return min(int(found[1] or found[2]), LONGEST_WAIT_SECONDS)
    return None
