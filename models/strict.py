"""How the controller validates the classes that it is sent."""

from __future__ import annotations

from typing import Any

# pydantic reads these of plain dataclasses; the driver does not need pydantic for it.
STRICT: dict[str, Any] = {"extra": "forbid", "strict": True}
"""How it validates what people write: no conversion, and no unknown field, since that is a slip of the pen."""

WIRE: dict[str, Any] = {**STRICT, "extra": "ignore"}
"""How it validates what a job sends: no conversion; a field that this release does not know is a later release's."""
