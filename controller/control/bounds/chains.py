"""What a stream's job last acknowledged beside its bound: the chain behind its operator, and its late rows.

Both are kept in the stream's row: every decision reads that anyway.
"""

from __future__ import annotations

import json
from functools import lru_cache

from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.late_policy import LateTreatment


@lru_cache(maxsize=256)
def late_in(text: str | None) -> LateTreatment | None:
    """Return what ``StreamRow.late`` holds; None when the job does not say what it does with late rows."""
    return None if text is None else read_object(LateTreatment, json.loads(text))
