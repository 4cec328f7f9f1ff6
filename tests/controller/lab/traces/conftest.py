"""Where the traces of tests go."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where the trace is to go, in a folder of its own so that what is left behind is seen."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder / "trace.parquet"
