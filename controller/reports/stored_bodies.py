"""What jobs send as it is stored: reports as compressed JSON, and fingerprints of it."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json
from sqlalchemy import Row

from tidemark.controller.base.db.tables import ReportRow
from tidemark.models.evidence.misdated import Clocks
from tidemark.models.evidence.needs import Needs, needs_against
from tidemark.models.protocol.messages import Acknowledgement, Report

_REPORT, _ACKNOWLEDGEMENT = TypeAdapter(Report), TypeAdapter(Acknowledgement)

_COMPRESSION = 1
"""Level of zlib: the highest makes bodies a tenth smaller and takes three times as long."""


def canonical_json(value: Report | Acknowledgement) -> bytes:
    """Return JSON that is the same for equal values in one release: no spaces, the fields in their order.

    When a report was sent is left out.
    """
    if isinstance(value, Report):
        return _REPORT.dump_json(value, exclude={"sent_us"})
    return _ACKNOWLEDGEMENT.dump_json(value)


def fingerprint(content: bytes) -> str:
    """Return a digest that is equal for equal contents, 64 characters."""
    return hashlib.sha256(content).hexdigest()


def packed(content: bytes) -> bytes:
    """Compress JSON for the store."""
    return zlib.compress(content, _COMPRESSION)


def stored_json(body: bytes) -> bytes:
    """Return the JSON of the report whose stored body is ``body``."""
    return zlib.decompress(body)


def stored_report(body: bytes) -> Report:
    """Return the report whose stored body is ``body``."""
    return _REPORT.validate_json(stored_json(body))


def clocks_of(row: ReportRow | Row[*tuple[Any, ...]]) -> Clocks:
    """Return the clocks of the batch of a stored report."""
    return Clocks(row.latest_us, row.driver_ahead_us)


NEEDS_BY = (ReportRow.need_base_ms, ReportRow.latest_us, ReportRow.driver_ahead_us)
"""The columns that ``stored_needs`` reads, beside the body."""


def stored_needs(row: ReportRow | Row[*tuple[Any, ...]], body: bytes) -> Needs:
    """Return the needs of a stored report as they were counted."""
    return needs_against(stored_report(body), row.need_base_ms, clocks=clocks_of(row))


def is_stored(body: bytes, content: bytes) -> bool:
    """Return whether a report with the JSON ``content`` is the one whose stored body is ``body``.

    Its fingerprint may differ: an earlier release stores a report without the fields that it does not know.
    """
    return _is_part(from_json(stored_json(body)), from_json(content))


def _is_part(stored: Any, sent: Any) -> bool:
    """Return whether JSON is the same but for fields that ``sent`` has besides; one left out is as one of null."""
    if isinstance(stored, dict) and isinstance(sent, dict):
        return all(_is_part(part, sent.get(name)) for name, part in stored.items())
    return bool(stored == sent)
