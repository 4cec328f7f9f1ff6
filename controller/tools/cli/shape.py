"""The shape of a command: a row of a table, with its name, its text, what it takes, and the function that it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand
from click.shell_completion import CompletionItem

from tidemark.models.base.text import plain

Kind = Literal["call", "answer", "itself", "plain"]
"""How a command runs. call: the function asks a client and returns an answer; answer: it returns one without a client;
itself: it prints, and takes ``output``; plain: it prints, in one form alone."""

Params = Sequence[click.Parameter]
Param = click.Parameter | Callable[[str], Params]
"""What a command takes; or makes it of the command's name when it is asked for, since that needs more modules."""

REQUEST_FAILED = 1
"""Exit code when the controller rejects the request or does not answer."""
USAGE_ERROR = 2
"""Exit code when the arguments or the surroundings of the command have to be corrected."""

_GIVEN = click.core.ParameterSource.COMMANDLINE

PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Row:
    """A command."""

    name: str
    """Its name, behind that of its group where it is in one."""
    run: str
    """The function: its module beside this one, or in the laboratory with its dotted name, a colon, and its name."""
    help: str
    """What it does; the first paragraph stands in lists."""
    params: Sequence[Param] = ()
    """What it takes beside what all of its kind take."""
    kind: Kind = "call"
    """How it runs."""
    watched: bool = False
    """Whether it can be shown again and again."""
    extra: str | None = None
    """Extra of the distribution that brings what it needs; None when the controller's own is enough."""
    whole: bool = False
    """Whether all that follows its first argument is its arguments, options too."""


class Words(click.Choice[str]):
    """One of some words, in any case."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__(tuple(words), case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Return what is wrong with a value."""
        return f"{value!r} is not one of {', '.join(self.choices)}"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the words that begin as what is there, as they are written."""
        begin = incomplete.casefold()
        return [CompletionItem(word) for word in self.choices if word.casefold().startswith(begin)]


class Whole(click.IntRange):
    """A whole number within limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            number = int(value)
        except ValueError:
            self.fail("it must be a whole number", param, ctx)
        if self.min is not None and number < self.min:
            self.fail(f"it must be at least {self.min}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"it must be at most {self.max}", param, ctx)
        return number


def opt(names: str, text: str, type: Any = None, default: Any = None, **more: Any) -> click.Option:  # noqa: A002
    """Return an option: ``names`` has its flags, and the name of the parameter where that differs.

    A flag that is on or off is of type bool; one of several words has them as its type, as a tuple.
    """
    if type is bool:
        return click.Option(names.split(), is_flag=True, help=text, **more)
    kind = Words(type) if isinstance(type, tuple) else type
    shown = more.pop("show_default", default is not None)
    return click.Option(names.split(), type=kind, default=default, show_default=shown, help=text, **more)


def several(names: str, text: str, **more: Any) -> click.Option:
    """Return an option that may be repeated."""
    return click.Option(names.split(), multiple=True, help=text, **more)


def arg(name: str, text: str, metavar: str | None = None, **more: Any) -> click.Argument:
    """Return an argument."""
    return click.Argument([name], help=text, metavar=metavar or name.upper(), **more)


class Command(click.Command):
    """The command of a row."""

    def __init__(self, row: Row, common: Params, run: Callable[[Row, dict[str, Any]], None]) -> None:
        settings = {"allow_interspersed_args": not row.whole}
        super().__init__(
            row.name.rpartition(" ")[2],
            context_settings=settings,
            callback=self._run,
            help=row.help,
            params=[],
        )
        self.row, self._common, self._run_row = row, common, run

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return what it takes; some of it is made only when it is asked for."""
        if not self.params:
            for item in self.row.params:
                self.params += [item] if isinstance(item, click.Parameter) else item(self.row.name)
            self.params += self._common
        return super().get_params(ctx)

    def _run(self, **options: Any) -> None:
        try:
            self._run_row(self.row, options)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if self.row.extra is None or package == "tidemark":
                raise
            fail_usage(
                f"`tidemark {self.row.name}` needs {package}: pip install 'tidemark-streaming[{self.row.extra}]'"
            )


class Group(click.Group):
    """Commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names."""
        return list(self.commands)


class Commands(Group):
    """All commands, listed by task; each failure of a command line is one line."""

    def __init__(self, panels: Mapping[str, Mapping[str, click.Command]], params: Params) -> None:
        self._panels = panels
        commands = {name: command for panel in panels.values() for name, command in panel.items()}
        text = "Adaptive watermarks for Spark Structured Streaming."
        super().__init__("tidemark", commands, help=text, no_args_is_help=True, params=list(params))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by task."""
        width = max(map(len, self.commands))
        for title, panel in self._panels.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:<{width}}", command.get_short_help_str(1_000))
                        for name, command in panel.items()
                    ]
                )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - as click has it
        **extra: Any,
    ) -> Any:
        """Run a command line, and end the process."""
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            click.echo(plain(f"tidemark: {self._usage_line(error, words)}"), err=True)
            code = USAGE_ERROR
        except click.Abort:
            click.echo("Aborted.", err=True)
            code = REQUEST_FAILED
        except BrokenPipeError:
            code = REQUEST_FAILED
        sys.exit(code or 0)

    def _usage_line(self, error: click.UsageError, words: Sequence[str]) -> str:
        """Return what is wrong with a command line, and the command that shows how it is right."""
        path = "" if error.ctx is None else error.ctx.command_path
        name = next((word for word in words if word in self.commands), None)
        if isinstance(error, click.NoSuchOption) and name is not None and path == "tidemark":
            return f"{error.option_name} stands behind the command: tidemark {name} {error.option_name} ..."
        return f"{_problem(error)} (`{path} --help` shows how)" if path else _problem(error)


def _problem(error: click.UsageError) -> str:
    match error:
        case click.NoSuchOption():
            return f"there is no option {error.option_name}{_nearest(error.possibilities, '{}')}"
        case NoSuchCommand():
            return f"no such command {error.command_name!r}{_nearest(error.possibilities, '{!r}')}"
        case click.MissingParameter():
            return f"{_name(error.param)} is missing: {getattr(error.param, 'help', None) or ''}".rstrip(
                ". :"
            )
        case click.BadParameter():
            return f"{_name(error.param)}: {error.message}"
        case click.BadOptionUsage():
            return f"{error.option_name}: its value is missing"
        case _:
            pass
    extra = re.search(r"unexpected extra arguments? \((.+)\)", error.message)
    return f"{extra[1]}: more arguments than it takes" if extra else error.message


def _nearest(names: Sequence[str] | None, form: str) -> str:
    return f"; did you mean {form.format(names[0])}?" if names else ""


def _name(param: click.Parameter | None) -> str:
    """Return the name of an option or an argument, as a command line has it."""
    if param is None:
        return ""
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


def check_options(message: str, taken: Collection[str]) -> None:
    """Check that a command line has no options that would have no effect: whoever gives one expects an effect.

    Raises:
        ValueError: when it has others than those ``taken``, by the names of their parameters.
    """
    ctx = click.get_current_context()
    written = (one for one in ctx.command.get_params(ctx) if ctx.get_parameter_source(one.name) is _GIVEN)
    others = [_name(one) for one in written if one.name not in taken]
    if others:
        raise ValueError(f"{message} {', '.join(others)}")


def fail_usage(*messages: str) -> NoReturn:
    """End the command with a line for each message: its arguments or its surroundings have to be corrected."""
    _end(messages, USAGE_ERROR)


def fail_request(message: str) -> NoReturn:
    """End the command with one line: the controller rejects the request or does not answer."""
    _end([message], REQUEST_FAILED)


def _end(messages: Iterable[str], code: int) -> NoReturn:
    for message in messages:
        click.echo(plain(f"tidemark: {message}"), err=True)
    raise click.exceptions.Exit(code)
