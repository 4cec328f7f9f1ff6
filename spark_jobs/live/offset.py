"""The offset of a control stream, as the driver, the source and the checkpoint have it: see ``control_source``."""

from __future__ import annotations

from typing import Any

Offset = dict[str, Any]
"""``{"source": id, "watermark_ms": …, "partitions": {name: base_us}}``"""
