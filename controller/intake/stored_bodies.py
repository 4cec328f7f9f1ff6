"""Bodies of reports as stored: compressed canonical JSON."""

from __future__ import annotations

import zlib

from pydantic import TypeAdapter

from tidemark.models.wire import Report

_REPORT = TypeAdapter(Report)

_COMPRESSION = 1
"""Level of zlib: the highest makes bodies a tenth smaller and takes three times as long."""


def packed(content: bytes) -> bytes:
    """Compress canonical JSON for the store."""
    return zlib.compress(content, _COMPRESSION)


def stored_report(body: bytes) -> Report:
    """Return the report whose stored body is ``body``."""
    return _REPORT.validate_json(zlib.decompress(body))
