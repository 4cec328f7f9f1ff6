"""The header ``Accept``: a caller that accepts no JSON gets 406 before anything is done."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header

from tidemark.controller.errors import NotAcceptableError

_JSON = "application/json"
_RANGES = (_JSON, "application/*", "*/*")
"""Media ranges that include JSON, the most specific first."""

_WEIGHT = re.compile(r"q\s*=\s*([01](?:\.\d{0,3})?)", re.IGNORECASE)


def takes_json(accept: str) -> bool:
    """Return whether an Accept header allows JSON; a weight that cannot be read counts as 1."""
    weights: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        found = next(filter(None, map(_WEIGHT.fullmatch, parameters)), None)
        weights[name.lower()] = 1.0 if found is None else float(found[1])
    # The most specific range decides (RFC 9110, 12.5.1); an empty header excludes nothing.
    return not accept.strip() or next((weights[name] > 0 for name in _RANGES if name in weights), False)


async def check_accept(accept: Annotated[list[str] | None, Header(include_in_schema=False)] = None) -> None:
    """Check the headers ``Accept`` of a request.

    Raises:
        NotAcceptableError: when they allow no JSON.
    """
    found = ", ".join(accept or ())
    if not takes_json(found):
        raise NotAcceptableError(f"the answer is {_JSON}, and Accept is {found!r}; send {_JSON} or */*")


TakesJson = Depends(check_accept)
"""Rejects callers that accept no JSON."""
