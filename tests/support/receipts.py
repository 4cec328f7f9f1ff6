"""The receipt by which a controller confirms what it was sent, for what stands in for one."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

__all__ = ["body_of", "receipt_for", "sha256_of"]


def body_of(content: bytes, encoding: str | None) -> bytes:
    """Return a body as it was before it was compressed."""
    return gzip.decompress(content) if encoding == "gzip" else content


def sha256_of(content: bytes, encoding: str | None) -> str:
    """Return the name of a body in receipts and problems."""
    return hashlib.sha256(body_of(content, encoding)).hexdigest()


def receipt_for(content: bytes, encoding: str | None) -> dict[str, Any]:
    """Return the receipt for a body."""
    return {"body_sha256": sha256_of(content, encoding), "duplicate": False, "received_us": 0}
