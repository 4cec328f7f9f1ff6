"""How many examples a property is held against."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["USUAL", "examples"]

USUAL = 40
"""Examples of a property in `make test`, where nothing else is said."""


def examples(number: int) -> settings:
    """Return the setting of a property that needs another number of examples than others.

    Args:
        number: in `make test`; what draws fewer or more examples of all properties does so of this one too.
    """
    return settings(max_examples=max(1, number * settings().max_examples // USUAL))
