"""The command line starts fast: a command imports only what it needs; and the table of the commands is true."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import PANELS, app

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports
from support.served import served

HEAVY = {
    "alembic",
    "fastapi",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sqlalchemy",
    "uvicorn",
    "yaml",
}
"""Packages that a command which only calls a controller does not need."""

CALLS = {"httpx", "tenacity", "rich"}
"""Packages that a call and its answer need, and help does not."""

CHILD = """
import sys
from tidemark.controller.tools.cli import main
try:
    main()
finally:
    print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    """Run a command in a process of its own and return the packages that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


SEVERAL = """
import contextlib, io, sys
from tidemark.controller.tools.cli import main
for command in sys.argv[1:]:
    sys.argv[1:] = [*command.split(), "--help"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as printed:
        main()
    assert "Usage" in printed.getvalue(), command
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_help_imports_no_package_that_only_work_needs() -> None:
    commands = ["", "status", "slo set", "token create", "doctor"]
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, *commands], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & (HEAVY | CALLS) == set()


def test_the_list_of_commands_imports_no_command() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", CHILD, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {row.run.partition(":")[0] for rows in PANELS.values() for row in rows}
    assert "tidemark.controller.tools.cli.commands" in done.stderr
    assert [name for name in modules if f"tidemark.controller.tools.cli.{name}\n" in done.stderr] == []


@pytest.mark.slow
def test_commands_that_call_a_controller_import_nothing_heavy(controller: Controller) -> None:
    controller.report_all(query_reports(exponential_batches(3, 40)))
    controller.put("/slo", {"target_ppm": 900_000})
    with served(controller.app) as url:
        for arguments in (
            ("status",),
            ("status", "job"),
            ("status", "job", "stream"),
            ("slo", "get", "job", "stream"),
            ("partitions", "job", "stream"),
            ("rollouts",),
            ("curve", "job", "stream"),
        ):
            assert imported(*arguments, "--url", url) & HEAVY == set(), arguments


def test_a_command_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "tidemark.controller.lab.traces.format", raising=False)
    done = CliRunner().invoke(app, ["curve", "t.parquet"])
    assert done.exit_code == 2
    assert (
        done.stderr == "tidemark: `tidemark curve` needs pyarrow: pip install 'tidemark-streaming[trace]'\n"
    )


def test_a_module_of_our_own_that_is_missing_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidemark.controller.lab.curve.of_trace", None)
    done = CliRunner().invoke(app, ["curve", "t.parquet"])
    assert isinstance(done.exception, ModuleNotFoundError)


def test_an_unknown_command_is_named_with_the_nearest() -> None:
    done = CliRunner().invoke(app, ["statsu"])
    assert done.exit_code == 2
    assert "did you mean 'status'?" in done.stderr


def completed(line: str, **environment: str) -> list[str]:
    """Return what a shell would offer for the last word of a line."""
    words = line.split(" ")
    given = {"_TIDEMARK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    offered = CliRunner().invoke(app, [], prog_name="tidemark", env={**given, **environment}).stdout.split()
    return [one.partition(",")[2] for one in offered]


def test_a_shell_completes_commands_options_and_values() -> None:
    assert completed("tidemark p") == ["partitions", "policy", "pause", "pin", "pins"]
    assert completed("tidemark slo del") == ["delete"]
    assert completed("tidemark pin --fl") == ["--fleet"]
    assert completed("tidemark policy set a b --mode OnR") == ["OnRestart"]


@pytest.mark.slow
def test_a_shell_completes_the_names_of_jobs_and_streams(controller: Controller) -> None:
    for job, stream in (("shop", "clicks"), ("shop", "views"), ("other", "clicks")):
        assert controller.http.put(f"/v1/jobs/{job}/streams/{stream}/slo", json={"target_ppm": 1}).is_success
    with served(controller.app) as url:
        assert completed("tidemark status sh", TIDEMARK_URL=url) == ["shop"]
        assert sorted(completed("tidemark doctor shop ", TIDEMARK_URL=url)) == ["clicks", "views"]
        assert completed("tidemark pin shop v", TIDEMARK_URL=url) == ["views"]
    assert completed("tidemark status sh", TIDEMARK_URL="http://127.0.0.1:1") == []


def test_values_are_taken_in_any_case(controller: Controller) -> None:
    with served(controller.app) as url:
        for mode in ("onrestart", "RESTART", "Live"):
            done = CliRunner().invoke(
                app, ["policy", "set", "job", "stream", "--create", "--mode", mode, "--url", url]
            )
            assert done.exit_code == 0, done.output
            assert controller.get("/policy").json()["mode"].casefold() == mode.casefold()


def test_the_help_lists_every_command_once_under_its_task() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    listed = [
        line.split()[0] for line in text.partition("\nWatch:")[2].splitlines() if re.match(r"  \w", line)
    ]
    assert listed == list(app.commands)
    assert [title in text for title in PANELS] == [True] * len(PANELS)
