"""The commands by name, each imported when it is used: ``tidemark --help`` imports none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from tidemark.controller.tools.cli.show import fail_usage
from tidemark.controller.tools.cli.usage import usage_line

_USAGE = 2
"""Exit code of Typer's errors that concern the command line."""


class Entry(NamedTuple):
    """Where a command is."""

    module: str
    """Module of ``tidemark.controller.tools.cli`` whose ``register`` adds the command to an app."""
    help: str
    """What it does, in one sentence: the first of its own help text."""
    extra: str | None = None
    """Extra of the distribution that brings what the module needs; None when the controller's own is enough."""


PANELS: Mapping[str, Mapping[str, Entry]] = {
    "Watch": {
        "status": Entry(
            "status",
            "Show how all jobs, one job or one of its streams are doing; -o wide lists each stream of the fleet.",
        ),
        "why": Entry(
            "why",
            "Say why a stream has the bound that it has: the step that decides, or with --all each step.",
        ),
        "savings": Entry(
            "savings", "Show what the fleet would save, streams that lose rows first, then by waiting saved."
        ),
        "doctor": Entry(
            "doctor", "Check a job, all jobs or a conf: what is fine, what is missing, and what to do next."
        ),
        "partitions": Entry(
            "streams", "Show the partitions of a stream, those that cost most latency first."
        ),
        "lost": Entry(
            "streams",
            "Show which values of a dimension, such as the region, lose rows, and who loses far more.",
        ),
        "events": Entry("events", "Show what changed, from what to what, why and by whom, the newest first."),
    },
    "Set": {
        "slo": Entry("specs", "Set, show, delete and list SLOs."),
        "policy": Entry("specs", "Set, show and delete what the controller may do to a stream."),
        "join": Entry("specs", "Set, list, show and delete the SLO on the joined output of several streams."),
        "apply": Entry(
            "apply",
            "Make SLOs, policies and joins as documents in files say, all or none; show what differs.",
        ),
        "export": Entry("apply", "Print SLOs, policies and joins as documents that `tidemark apply` reads."),
    },
    "Roll out and hold": {
        "rollouts": Entry(
            "rollouts",
            "List rollouts, the newest first; for a stream also what is recommended, and why.",
        ),
        "approve": Entry("rollouts", "Approve a rollout; it is published as soon as no gate holds it."),
        "discard": Entry("rollouts", "Discard a rollout that is not published yet."),
        "rollback": Entry("rollouts", "Publish again the bound from before the newest rollout of a stream."),
        "lift": Entry(
            "rollouts", "Lift the veto on a rollout that was discarded or rolled back by a person."
        ),
        "pause": Entry("rollouts", "Start no new rollout for a stream; the one under way is still watched."),
        "resume": Entry("rollouts", "End a pause."),
        "pin": Entry(
            "pin", "Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once."
        ),
        "unpin": Entry("pin", "Remove a pin."),
        "pins": Entry("pin", "List the pins."),
    },
    "Analyse": {
        "trace": Entry("trace", "Make a trace, a Parquet file of recorded arrivals.", "trace"),
        "curve": Entry("curve", "Show completeness and latency by bound, for a trace or a stream.", "trace"),
        "backtest": Entry(
            "backtest",
            "Replay traces under policies and compare the policies, or try a target on a stream.",
            "trace",
        ),
        "lint": Entry(
            "spark_programs",
            "Check the joins and stateful operators of a job's streams before it starts.",
            "spark",
        ),
        "run": Entry(
            "spark_programs",
            "Run a PySpark program that does not call Tidemark, with the watermarks of its queries watched.",
            "spark",
        ),
        "inspect": Entry(
            "spark_programs",
            "Show what a query's checkpoint holds: watermarks, sources, operators, open windows and rows of state.",
            "spark",
        ),
        "demo": Entry(
            "spark_programs",
            "Run the whole loop on a real Spark stream: guessed bound, recommendation, restart.",
            "demo",
        ),
    },
    "Operate": {
        "jar": Entry("spark_programs", "Print the path of Tidemark's jar for the installed Spark."),
        "serve": Entry(
            "serve", "Run the controller: the REST API, the decision loop and the metrics, in one process."
        ),
        "mcp": Entry(
            "mcp_server",
            "Serve a controller to agents over standard input and output (MCP); they can read, and change nothing.",
            "mcp",
        ),
        "token": Entry("token", "Create, list, rotate and revoke tokens."),
        "settings": Entry(
            "store", "Show the settings in force and where each comes from; passwords are masked."
        ),
        "backup": Entry(
            "store", "Write a whole and checked copy of a SQLite store to a file, while the controller runs."
        ),
        "restore": Entry(
            "store",
            "Replace the store by a backup, and give it a new epoch; every controller must be stopped.",
        ),
        "adopt": Entry(
            "streams",
            "Let a stream that began anew go on as the one that it was, with its SLO, approvals and history.",
        ),
        "forget": Entry("streams", "Delete a stream with all of its data; it cannot be undone."),
        "spark-conf": Entry(
            "fleet_conf",
            "Print the conf that lets every job of a fleet be watched, with no line of a job changed.",
        ),
        "late": Entry("spark_programs", "Keep the rows that Spark dropped as late.", "spark"),
        "reconcile": Entry(
            "spark_programs", "Put late rows into the finished windows that they belong to.", "spark"
        ),
    },
}
"""The commands by name under the title of their task, in the order in which the help lists them."""

COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
"""The commands by name."""


class Completion(NamedTuple):
    """A command that a shell can complete, as Typer reads it."""

    value: str
    help: str
    type: str = "plain"


class LazyGroup(TyperGroup):
    """A group whose commands are those of ``COMMANDS``."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - one signature
        """Write the commands by task from the table, so that no module is imported."""
        width = max(map(len, COMMANDS))
        for title, panel in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", entry.help) for name, entry in panel.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ARG002 - one signature
        """Complete the name of a command from the table, as above."""
        return [
            Completion(name, entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read what stands before the command; options of commands stand behind it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if not _is_usage(error):
                raise
            name = getattr(error, "option_name", "")
            command = next((word for word in given if word in COMMANDS), None)
            if name and command is not None:
                fail_usage(f"{name} stands behind the command: tidemark {command} {name} ...")
            fail_usage(usage_line(error))

    def invoke(self, ctx: Any) -> Any:
        """Run a command; name the extra to install when a module of it is missing."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            _name_extra(ctx.invoked_subcommand or "", error)
            raise
        except typer.TyperException as error:
            if not _is_usage(error):
                raise
            fail_usage(usage_line(error))


def _is_usage(error: typer.TyperException) -> bool:
    """Return whether an error says that a command line is wrong; a group without a command only prints its help."""
    ctx = getattr(error, "ctx", None)
    return error.exit_code == _USAGE and (ctx is None or error.message != ctx.get_help())


def _name_extra(name: str, error: ModuleNotFoundError) -> None:
    """End a command with the extra to install, if one brings the module that is missing."""
    entry, package = COMMANDS.get(name), (error.name or "").partition(".")[0]
    if entry is not None and entry.extra is not None and package != "tidemark":
        fail_usage(f"`tidemark {name}` needs {package}: pip install 'tidemark[{entry.extra}]'")


class _Commands(MutableMapping[str, Any]):
    """The commands by name, imported on access."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            app = typer.Typer(rich_markup_mode=None)
            try:
                import_module(f"tidemark.controller.tools.cli.{COMMANDS[name].module}").register(app)
            except ModuleNotFoundError as error:
                _name_extra(name, error)
                raise
            self._loaded |= get_group(app).commands
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)
