"""What another release may have written, on disk or in the store, is read by one rule: unknown fields are ignored."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemark.models.base.read_json import read_object
from tidemark.models.live.learned import Learned
from tidemark.models.protocol.messages import BoundAnswer, Report
from tidemark.models.specs.slo import FreezeWindow

from support.other_releases import with_unknown
from support.tree import FOLDERS, ROOT, parsed

pytestmark = pytest.mark.slow

TRIED_ELSEWHERE = {BoundAnswer, Report, Learned}
"""What ``tests/controller/server/test_other_releases.py`` tries with real bodies, and what holds arrays."""


def product() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, parsed(path.read_text(encoding="utf-8"))


def calls(part: ast.AST, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(part) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]


def kinds_read() -> Iterator[type]:
    """Yield the classes that the product reads from JSON."""
    for path, module in product():
        for scope in [module, *(node for node in ast.walk(module) if isinstance(node, ast.ClassDef))]:
            for call in (*calls(scope, "read_object"), *calls(scope, "AsJson")):
                named = ast.unparse(call.args[0])
                name = scope.name if named == "cls" and isinstance(scope, ast.ClassDef) else named
                home = import_module(".".join(("tidemark", *path.relative_to(ROOT).with_suffix("").parts)))
                if isinstance(getattr(home, name, None), type):
                    yield getattr(home, name)


KINDS = sorted(set(kinds_read()) - TRIED_ELSEWHERE, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.filter_too_much])  # a policy refuses most of what is drawn
@given(data=st.data())
def test_what_a_later_release_wrote_is_read_without_the_fields_that_are_not_known(
    kind: type[Any], data: st.DataObject
) -> None:
    written = data.draw(possible(kind))
    document = json.loads(json.dumps(asdict(written)))
    # A mapping has any names.
    mappings = {
        name: document[name] for name, hint in get_type_hints(kind).items() if get_origin(hint) is dict
    }
    assert read_object(kind, with_unknown(document) | mappings) == written


def possible(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Return objects of a class, without those that it refuses."""

    def made(given: dict[str, Any]) -> Any:
        try:
            return kind(**given)
        except ValueError:
            return None

    hints = get_type_hints(kind, include_extras=True)
    fields_of = st.fixed_dictionaries({field.name: st.from_type(hints[field.name]) for field in fields(kind)})
    return fields_of.map(made).filter(lambda value: value is not None)


# A policy holds some, and would be refused with one that is.
st.register_type_strategy(FreezeWindow, possible(FreezeWindow))


def test_the_classes_that_are_read_are_found() -> None:
    assert {kind.__name__ for kind in KINDS} >= {
        "Envelope",
        "Downstream",
        "Mark",
        "ReportedRun",
        "LostSummary",
    }


def test_what_was_read_from_json_is_never_spread_into_a_call() -> None:
    """It would refuse the field that a later release adds: ``read_object`` ignores it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno} {ast.unparse(call)}"
        for path, module in product()
        for scope in ast.walk(module)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and calls(scope, "json.loads")
        for call in ast.walk(scope)
        if isinstance(call, ast.Call) and any(keyword.arg is None for keyword in call.keywords)
    ]
    assert wrong == []
