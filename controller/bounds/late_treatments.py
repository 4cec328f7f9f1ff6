"""What the job of a stream does with late rows, as it last acknowledged it; kept in the stream's row."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

from tidemark.models.base.read_json import read_object
from tidemark.models.protocol.late_policy import LateTreatment


def late_json(late: LateTreatment | None) -> str | None:
    """Return what is stored of it."""
    return None if late is None else json.dumps(asdict(late))


@lru_cache(maxsize=256)
def late_in(text: str | None) -> LateTreatment | None:
    """Return what ``late_json`` made JSON of; None when the job does not say."""
    return None if text is None else read_object(LateTreatment, json.loads(text))
