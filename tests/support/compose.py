"""The compose file: as the reference implementation reads it, and its commands as a container would run them."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.go_tools import go_tool
from support.tree import ROOT

__all__ = ["COMPOSE", "command_of", "compose_file", "normalised"]

COMPOSE = ROOT / "deploy" / "compose"


@functools.cache
def compose_file() -> dict[str, Any]:
    """Return the file as YAML says it."""
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
    return found


def normalised(path: Path = COMPOSE / "compose.yaml") -> subprocess.CompletedProcess[str]:
    """Return what `docker compose config` would say: the whole model, or what is wrong."""
    return subprocess.run([go_tool("compose-go"), path], capture_output=True, text=True, check=False)


def command_of(service: str) -> str:
    """Return the line of a service's command that a shell runs."""
    shell, option, line = compose_file()["services"][service]["command"]
    assert (shell, option) == ("sh", "-ec")
    return str(line).replace("$$", "$")
