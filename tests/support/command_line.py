"""The command line in this process, so that a test's own session of Spark serves it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidemark.controller.tools.cli import app


def exit_code(*words: str, given: Sequence[str]) -> int:
    """Run a command, which prints where this process prints, and return its exit code."""
    with pytest.raises(SystemExit) as end:
        app([*words, *given], prog_name="tidemark")
    assert isinstance(end.value.code, int)
    return end.value.code
