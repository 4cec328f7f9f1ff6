"""What a query reads and writes, as its job says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen

from tidemark.models.base.ranges import WIRE

MAX_INPUTS = 100
"""How many addresses are sent of what a stream is read from."""

MAX_ADDRESS = 1_000
"""How many characters an address may have."""

_Address = Annotated[str, MaxLen(MAX_ADDRESS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasets:
    """Addresses of what is read into a stream and what its query writes to: ``kafka://HOST:PORT/TOPIC``, or a URI."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    inputs: Annotated[tuple[_Address, ...], MaxLen(MAX_INPUTS)] = ()
    """What the stream is read from; empty when that is not known."""
    output: _Address | None = None
    """What the query writes to; null when that is not known, as in ``foreachBatch``."""


NO_DATASETS = Datasets()
"""Nothing is known."""
