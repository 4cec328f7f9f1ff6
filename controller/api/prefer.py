"""The preference ``wait`` of a request (RFC 7240): how long its answer may be held back."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header
from pydantic import WithJsonSchema

MAX_WAIT_SECONDS = 60
"""How long an answer is held back at most: proxies often close a silent connection after a minute."""

Prefer = Annotated[
    list[str] | None,
    # Any text is taken, and lines that are repeated mean the same as one with commas (RFC 9110, 5.3).
    WithJsonSchema({"type": "string"}),
    Header(
        description="wait=N holds the answer back until the ETag in If-None-Match is no longer current, for at most N "
        f"seconds (at most {MAX_WAIT_SECONDS}); then it is 304.",
        examples=["wait=30"],
    ),
]
"""The Prefer header, which may be repeated."""

_WAIT = re.compile(r'wait\s*=\s*(?:"(\d{1,9})"|(\d{1,9}))', re.IGNORECASE)


def wait_seconds(headers: list[str] | None) -> int | None:
    """Return how many seconds the answer may be held back, None without a readable ``wait``.

    The first ``wait`` counts, as in the RFC; unreadable preferences are ignored.
    """
    for preference in ",".join(headers or ()).split(","):
        found = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if found is not None:
            return min(int(found[1] or found[2]), MAX_WAIT_SECONDS)
    return None
