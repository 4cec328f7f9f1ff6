"""How the wire types are validated where they are validated: strictly, and without the driver needing pydantic."""

from __future__ import annotations

from typing import Any

__all__ = ["STRICT"]

# pydantic reads this attribute from plain dataclasses; it is data, so the driver needs no pydantic. It does not pass
# to the classes of a class's fields: each that goes over the wire must name it, or it takes anything.
STRICT: dict[str, Any] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
"""How the controller validates these classes: no unknown field, no conversion, attribute docstrings as descriptions."""
