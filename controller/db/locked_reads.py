"""What a transaction has read of a stream that it has locked: nobody else changes it until the transaction ends.

A decision asks for the newest rollout and the published bound in several of its steps, and a statement costs more than
what is done with its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from sqlalchemy.orm import Session

T = TypeVar("T")

_LOCKED = "locked"
"""Key of a session's information: what was read, by the ids of the streams that are locked."""


def remember_reads(session: Session, stream_id: int) -> None:
    """Remember what is read of a stream from now on. It has just been locked."""
    session.info.setdefault(_LOCKED, {})[stream_id] = {}


def read_once(session: Session, stream_id: int, what: str, read: Callable[[], T]) -> T:
    """Return what ``read`` returns; for a locked stream, what it returned before under the name ``what``."""
    remembered: dict[str, object] | None = session.info.get(_LOCKED, {}).get(stream_id)
    if remembered is None:
        return read()
    if what not in remembered:
        remembered[what] = read()
    return cast("T", remembered[what])


def read_again(session: Session, stream_id: int, *names: str) -> None:
    """Forget what was read of a stream under these names, because this transaction adds to it."""
    remembered = session.info.get(_LOCKED, {}).get(stream_id, {})
    for name in names:
        remembered.pop(name, None)
