"""Bodies of reports as stored: compressed canonical JSON."""

from __future__ import annotations

import zlib

from pydantic import TypeAdapter

from tidemark.controller.intake.canonical_json import canonical_json, fingerprint
from tidemark.controller.intake.report_v1 import REPORT_V1
from tidemark.models.protocol.messages import Report

_REPORT = TypeAdapter(Report)

_VERSION_1 = b'"schema_version":1,'
"""What the canonical JSON of version 1 has, and no other: within a text the quotes would be escaped."""

_COMPRESSION = 1
"""Level of zlib: the highest makes bodies a tenth smaller and takes three times as long."""


def packed(content: bytes) -> bytes:
    """Compress canonical JSON for the store."""
    return zlib.compress(content, _COMPRESSION)


def digest_of(body: bytes) -> str:
    """Return the fingerprint that the report whose stored body is ``body`` has in this release."""
    return fingerprint(canonical_json(stored_report(body)))


def stored_json(body: bytes) -> bytes:
    """Return the report whose stored body is ``body`` as the JSON that this release sends."""
    content = zlib.decompress(body)
    return canonical_json(REPORT_V1.validate_json(content)) if _VERSION_1 in content else content


def stored_report(body: bytes) -> Report:
    """Return the report whose stored body is ``body``."""
    content = zlib.decompress(body)
    return (REPORT_V1 if _VERSION_1 in content else _REPORT).validate_json(content)
