"""Arguments that the programs of the late rows share: an operator, a function, pairs, and the session."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling

_OPERATORS = {"tumbling": tumbling, "sliding": sliding, "session": session, "row_level": row_level}


def operator_of(text: str) -> Operator:
    """Return the operator in ``text``, a call as it stands in a job.

    Raises:
        ValueError: when it is none of the four, or its arguments are not plain texts.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise TypeError("it is not a call of one of them")  # noqa: TRY301 - explained below as what else is wrong
        if call.func.id not in _OPERATORS:
            raise ValueError(f"there is no {call.func.id}")  # noqa: TRY301 - as above
        make: Any = _OPERATORS[call.func.id]
        named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        return make(*map(ast.literal_eval, call.args), **named)  # type: ignore[no-any-return]
    except (SyntaxError, TypeError, ValueError) as error:
        why = (
            error.msg if isinstance(error, SyntaxError) else error
        )  # without the place in a file that there is not
        raise ValueError(
            f"--operator {text!r} is not understood ({why}); write it as in the job: "
            'tumbling("1 minute"), sliding("1 hour", "5 minutes"), session("30 s") or row_level()'
        ) from error


def function_of(option: str, name: str) -> Callable[[DataFrame], DataFrame]:
    """Return the function that ``name`` names as ``module:function``.

    Raises:
        ValueError: when it cannot be imported.
    """
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Callable[[DataFrame], DataFrame] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{option} {name!r} cannot be imported ({error}); write module:function, and set PYTHONPATH if needed"
        ) from error
    return found


def pairs_of(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the pairs in texts of the form NAME=VALUE.

    Raises:
        ValueError: when one has no equals sign.
    """
    pairs = [text.partition("=") for text in texts]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ValueError(f"{option} {wrong[0]!r} must be of the form NAME=VALUE")
    return {name: value for name, _, value in pairs}


def session_of(name: str, confs: Sequence[str]) -> SparkSession:
    """Return the session of a program called ``name``, with confs of the form KEY=VALUE."""
    # Python workers must be this Python, or they cannot import what the user's function imports.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    for key, value in pairs_of("--conf", confs).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
