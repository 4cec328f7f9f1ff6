"""The store's epoch, and versions of what is stored that never name another content.

Numbers alone come back: a store that is restored from a backup gives them out again, and what is deleted and set anew
may begin anew. So a version is a number, for people, and a digest of the content and of the epoch, for machines.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import EpochRow

_ONLY: Final = 1
"""The id of the one row."""

# Built once: building it takes longer than running it.
_EPOCH = select(EpochRow.epoch).where(EpochRow.id == _ONLY)


def epoch_of(session: Session) -> str:
    """Return the store's epoch."""
    epoch: str = session.connection().execute(_EPOCH).scalar_one()
    return epoch


def renew_epoch(session: Session) -> str:
    """Give the store a new epoch, because it was restored or copied, and return it."""
    epoch = secrets.token_hex(8)
    session.merge(EpochRow(id=_ONLY, epoch=epoch))
    return epoch


def version_in(epoch: str, name: int | str, *content: int | str | None) -> str:
    """Return the version of something that is stored.

    Args:
        epoch: the store's epoch.
        name: its number, or what kind of thing it is.
        content: what tells it from everything else that ever had this name.
    """
    digest = hashlib.sha256(json.dumps([epoch, *content]).encode()).hexdigest()
    return f"{name}-{digest[:16]}"


def stored_version(session: Session, name: int | str, *content: int | str | None) -> str:
    """Return the same for the store of a session."""
    return version_in(epoch_of(session), name, *content)
