"""A command of the laboratory in this process, as a user types it: what it prints, and in which line it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app

__all__ = ["Command", "trace", "trace_refused"]


@dataclass(frozen=True)
class Command:
    """A command by its name."""

    name: str

    def run(self, *arguments: str | Path) -> Result:
        """Run it, however it ends."""
        return CliRunner().invoke(app, [self.name, *map(str, arguments)])

    def said(self, *arguments: str | Path) -> str:
        """Return what it prints when it succeeds."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: str | Path) -> str:
        """Return the one line in which it refuses a wrong call, with code 2 and without any output."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        (line,) = result.stderr.splitlines()
        return line


trace = Command("trace")


def trace_refused(output: Path, *arguments: str | Path) -> str:
    """Return the line in which a wrong ``tidemark trace`` is refused, which leaves nothing beside its output."""
    line = trace.refused(*arguments, "-o", output)
    assert list(output.parent.iterdir()) == [], "no output, not even half of one"
    return line
