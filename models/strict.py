"""How the controller validates the classes that go over the wire."""

from __future__ import annotations

from typing import Any

# pydantic reads this attribute of plain dataclasses; the driver does not need pydantic for it.
STRICT: dict[str, Any] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
"""How the controller validates these classes: no unknown field, no conversion, attribute docstrings as descriptions."""
