"""The source tree as tests see it: its root and the files that belong to it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

__all__ = ["FOLDERS", "ROOT", "parsed", "tree_files"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("models", "controller", "spark_jobs")
"""The folders that are imported as ``tidemark.<folder>``."""


def parsed(source: str) -> ast.Module:
    """Return the tree of a module's source."""
    try:
        return ast.parse(source)
    except SystemError:
        # Python 3.11, where another thread parses while the garbage is collected (python/cpython#106905).
        return ast.parse(source)


def tree_files(*folders: str) -> list[Path]:
    """Return the files of the tree, relative to its root: what git tracks or would add, of ``folders`` or of all."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what belongs to the tree is not known")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(Path(name) for name in set(listed.split("\0")) if name and (ROOT / name).is_file())
