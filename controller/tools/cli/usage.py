"""What is wrong with a command line, in one line, as all else is."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from typer import BadParameter, TyperException

_BAD = {
    "valid integer": "it must be a whole number",
    "valid number": "it must be a number",
    "greater than or equal to (.+)": "it must be at least {0}",
    "less than or equal to (.+)": "it must be at most {0}",
}
"""By what the parser says of a number, what it must be."""


def usage_line(error: TyperException) -> str:
    """Return what is wrong with a command line, and the command that shows how it is right."""
    text, ctx = _problem(error), getattr(error, "ctx", None)
    # Options and arguments of the path have no place in the name of a command.
    command = "" if ctx is None else re.sub(r" [\[{].*?[\]}]", "", ctx.command_path)
    return f"{text} (`{command} --help` shows how)" if command else text


def _problem(error: TyperException) -> str:
    # Typer has public names for few of its errors; the others are told apart by what they have.
    match error:
        case object(option_name=str(option), possibilities=near_options):
            near = get_close_matches(option, near_options or (), 1, 0)
            return f"there is no option {option}" + (f"; did you mean {near[0]}?" if near else "")
        case BadParameter() if hasattr(error, "param_type"):
            return f"{_name(error.param)} is missing: {getattr(error.param, 'help', '') or ''}".rstrip(". :")
        case BadParameter():
            return f"{_name(error.param)}: {_bad(error)}"
        case _ if missing := re.search("[Oo]ption '(.+)' requires an argument", error.format_message()):
            return f"{missing[1]}: its value is missing"
        case _ if extra := re.search(
            r"unexpected extra arguments? ?(?:\(s\) )?\((.+)\)", error.format_message()
        ):
            return f"{extra[1]}: more arguments than it takes"
        case _:
            # Of a command that there is not, it is the nearest one.
            return _lower_first(error.format_message().rstrip(".").replace(". Did", "; did"))


def _bad(error: BadParameter) -> str:
    for pattern, words in _BAD.items():
        found = re.search(pattern, str(error.message))
        if found:
            return words.format(*found.groups())
    choices = getattr(getattr(error.param, "type_descriptor", None), "choices", None)
    text = str(error.message).removeprefix("Value error, ").rstrip(".")
    if choices and " is not one of " in text:
        # The parser's own list has lower-case letters.
        return f"{text.partition(' is not one of ')[0]} is not one of {', '.join(map(str, choices))}"
    return text


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _name(param: Any) -> Any:
    """Return the name of an option or an argument, as a command line has it."""
    return max(param.opts, key=len) if param.param_type_name == "option" else param.metavar or param.name
