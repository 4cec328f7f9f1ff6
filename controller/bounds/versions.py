"""Versions of what is published to jobs: what the ETag of a bound is made of, and what a long poll waits for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import and_
from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import newest_generation_query
from tidemark.controller.db.epoch import epoch_of, version_in
from tidemark.controller.db.tables import PublishedRow, StreamRow
from tidemark.controller.specs.pins import StoredPin, pins_in_force
from tidemark.controller.streams.names import named_streams, names_given

_UNREPORTED = "unreported"
"""Version of the answer for a stream that has not reported; once it has, generation 0 has another reason."""


def versions(session: Session, streams: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the version of the answer of each of ``streams``, by job and stream; unknown streams have one too.

    It changes whenever the answer does, and never names another answer, in no history of the store.
    """
    dialect = session.get_bind().dialect.name
    published = (
        PublishedRow.stream_id,
        PublishedRow.generation,
        PublishedRow.published_us,
        PublishedRow.mode,
        PublishedRow.bound_ms,
        PublishedRow.envelope,
        PublishedRow.pin,
    )
    query = named_streams(
        dialect, StreamRow.job, StreamRow.stream, StreamRow.registered_us, *published
    ).outerjoin(
        PublishedRow,
        and_(PublishedRow.stream_id == StreamRow.id, PublishedRow.generation == newest_generation_query()),
    )
    known = {
        (row.job, row.stream): row for row in session.execute(query, names_given(dialect, streams)).all()
    }
    epoch = epoch_of(session)
    pins = pins_in_force(
        session, [name for name in streams if name not in known or known[name].generation is None]
    )
    return {name: _version(epoch, known.get(name), pins.get(name)) for name in streams}


def _version(epoch: str, row: Any, pin: StoredPin | None) -> str:
    """Return the version of one answer; ``row`` is None for an unknown stream, ``pin`` once a generation names it."""
    if row is not None and row.generation is not None:
        return version_in(
            epoch,
            row.generation,
            row.stream_id,
            row.published_us,
            row.mode,
            row.bound_ms,
            row.envelope,
            row.pin,
        )
    # Without a pin these answers never differ.
    base = _UNREPORTED if row is None or row.registered_us is None else "0"
    return base if pin is None else version_in(epoch, base, pin.version(epoch))
