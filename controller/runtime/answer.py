"""What every answer is: an object that is made with the fields it has, and no others."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, source: object, **given: Any) -> Self:
        """Return the answer with the fields ``given``, and all others from the attributes of ``source``."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in given}, **given)
