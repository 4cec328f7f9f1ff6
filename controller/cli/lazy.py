"""Commands whose modules need more than the controller does: imported when used, and missed in one line."""

from __future__ import annotations

import importlib

import typer

from tidemark.controller.cli.fail import fail

__all__ = ["add_lazy"]


def add_lazy(app: typer.Typer, name: str, module: str, *, extra: str, help_text: str) -> None:
    """Add the command ``name``; ``module`` has the function of that name, as typer takes it.

    Args:
        app: what to add it to.
        name: name of the command.
        module: full name of the module.
        extra: extra of the distribution that brings what the module needs.
        help_text: what the command does, in one line.
    """

    @app.command(
        name,
        help=help_text,
        # Everything after the name is the module's business, --help included.
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        try:
            function = getattr(importlib.import_module(module), name)
            own = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            own.command(name)(function)
            own(context.args, prog_name=f"tidemark {name}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("tidemark."):
                raise
            fail(f"`tidemark {name}` needs {error.name}: pip install 'tidemark[{extra}]'")
