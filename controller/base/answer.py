"""What every answer is: an object with the fields it has, and no others; shares and times in the units of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from tidemark.models.base.target import PPM

T = TypeVar("T")


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, source: object, **named: Any) -> Self:
        """Return the answer with the fields ``named``; the others are the attributes of ``source``, or null of None."""
        others = (name for name in cls.model_fields if name not in named)
        return cls(**{name: None if source is None else getattr(source, name) for name in others}, **named)


def made_of(kind: Callable[..., T], source: object, **named: Any) -> T:
    """Return the dataclass ``kind`` with the fields ``named``, and all others from the attributes of ``source``."""
    names = (field.name for field in fields(cast("Any", kind)) if field.name not in named)
    return kind(**{name: getattr(source, name) for name in names}, **named)


class OfStream(Answer):
    """Base of answers about one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""


class Page(Answer):
    """Base of pages of a list."""

    next_cursor: str | None
    """Where the next page begins; null on the last."""


def share_ppm(part: int, whole: int) -> int | None:
    """Return ``part / whole`` in parts per million, rounded down so that 1,000,000 means all; None of nothing."""
    return part * PPM // whole if whole else None


def milliseconds(time_us: float | None) -> int | None:
    """Return a time in whole milliseconds, None of the unknown."""
    return None if time_us is None else round(time_us / 1_000)


__all__ = ["Answer"]
