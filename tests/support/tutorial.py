"""The tutorial: its commands are run as a reader would run them, beside a job that reports over HTTP."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.client import Client

from support.controller_app import Controller
from support.http_job import HttpJob
from support.reports import START_US
from support.served import served
from support.tree import ROOT

__all__ = ["SERVE", "TUTORIAL", "rewritten", "run", "running", "steps"]

TUTORIAL = ROOT / "docs" / "tutorial.md"

SERVE = "$ tidemark serve &"
"""It runs already, with a clock that goes with the job's batches."""

_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COLUMNS = "118"


def steps(text: str) -> list[tuple[str, str]]:
    """Return the lines of the document that do something, each with what stands under it."""
    return [step for block in _BLOCK.findall(text) for step in _steps_of(block)]


def _steps_of(block: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^(?=[$#] )", block, flags=re.MULTILINE):
        line, _, printed = part.partition("\n")
        if line:
            yield line, printed


def run(line: str, job: HttpJob, url: str) -> str:
    """Do what a line of the document says and return what it prints."""
    if line.startswith("# the job starts"):
        job.start()
    if line == SERVE or line.startswith("# "):
        return ""
    program, *arguments = shlex.split(line.removeprefix("$ "))
    assert program == "tidemark", line
    # As the loop of a controller does meanwhile.
    job.controller.snapshot()
    environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": _COLUMNS}
    result = CliRunner().invoke(app, arguments, env=environment)
    assert (result.exit_code, result.stderr) == (0, ""), (line, result.output)
    return result.stdout


@contextmanager
def running(database_url: str) -> Iterator[tuple[HttpJob, str]]:
    """Run a controller whose clock the job moves; give the job and the address."""
    with Controller(database_url) as controller:
        controller.clock.now_us = START_US
        with served(controller.app) as url, Client(url, token="") as client:
            yield HttpJob(controller, client), url


def rewritten(text: str, database_url: str) -> str:
    """Return the document with what its commands print now."""
    with running(database_url) as (job, url):

        def block(found: re.Match[str]) -> str:
            parts = []
            for line, before in _steps_of(found[1]):
                printed = before if line == SERVE else run(line, job, url)
                lines = [
                    short for each in printed.strip("\n").splitlines() for short in _wrapped(each.rstrip())
                ]
                parts.append("\n".join([line, *lines, *([""] if lines else [])]) + "\n")
            return f"```\n{''.join(parts).strip()}\n```"

        return _BLOCK.sub(block, text)


def _wrapped(line: str) -> list[str]:
    """Return the line in pieces that fit a document; the test does not care where lines end."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    width = int(_COLUMNS)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = rewritten(TUTORIAL.read_text(encoding="utf-8"), f"sqlite:///{Path(folder, 'tidemark.db')}")
    TUTORIAL.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TUTORIAL.relative_to(ROOT)}\n")


if __name__ == "__main__":
    _main()
