"""The first requests of a fresh controller: every read, and all that jobs send.

    python -m support.first_requests

serves them in this process, which has served none before, and prints what was built for them.
"""

from __future__ import annotations

import ast
import gc
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from pydantic import BaseModel, TypeAdapter
from pydantic._internal._generate_schema import GenerateSchema

from tidemark.controller.base.settings import Settings
from tidemark.controller.server.app import create_app
from tidemark.controller.server.http.authorize import need_of

from support.in_process import InProcessClient
from support.other_releases import DOCUMENT
from support.patience import PATIENCE_S

__all__ = ["ask_at_once", "requests"]

_NAMES = {"job": "orders", "stream": "clicks", "query_id": "q", "runbook": "TidemarkStoreDown"}


def requests() -> Iterator[tuple[str, str, Any]]:
    """Yield method, path and body of each; whether it is ready yet is not asked."""
    yield "GET", "/openapi.json", None
    yield "GET", "/", None
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            sent_by_jobs = getattr(need_of(operation["operationId"]), "right", None) == "Report"
            if path == "/readyz" or not (method == "get" or sent_by_jobs):
                continue
            for part in path.split("{")[1:]:
                name = part.split("}")[0]
                # Any other parameter of a path is a number.
                path = path.replace(f"{{{name}}}", _NAMES.get(name, "1"))  # noqa: PLW2901
            body = (
                operation["requestBody"]["content"]["application/json"]["example"] if sent_by_jobs else None
            )
            yield method.upper(), path, body


def ask_at_once(url: str, threads: int) -> list[tuple[str, int]]:
    """Send them from so many threads that begin together; return each with the status of its answer."""
    begin, found = threading.Barrier(threads), list[tuple[str, int]]()

    def ask(mine: list[tuple[str, str, Any]]) -> None:
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            begin.wait()
            for method, path, body in mine:
                found.append((f"{method} {path}", client.request(method, path, json=body).status_code))

    each = list(requests())
    running = [threading.Thread(target=ask, args=(each[number::threads],)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(found) == len(each), "a request got no answer"
    return found


def _unbuilt(kind: type[BaseModel] = BaseModel) -> Iterator[str]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("tidemark.") and not each.__dict__["__pydantic_complete__"]:
            yield f"{each.__module__}.{each.__qualname__}"
        yield from _unbuilt(each)


def _main() -> None:
    built: list[str] = []

    def noted(what: str, original: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            built.append(f"{what} {arguments[-1]!r}"[:200])
            return original(*arguments, **named)

        return call

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(database_url=f"sqlite:///{Path(folder) / 't.db'}"))
        built += (f"unbuilt {name}" for name in _unbuilt())
        built += (
            f"unbuilt {each!r}"
            for each in gc.get_objects()
            if type(each) is TypeAdapter and not each.pydantic_complete
        )
        with (
            patch.object(GenerateSchema, "generate_schema", noted("schema", GenerateSchema.generate_schema)),
            patch.object(ast, "parse", noted("parse", ast.parse)),
            InProcessClient(app, raise_server_exceptions=False) as client,
        ):
            for method, path, body in requests():
                answer = client.request(method, path, json=body)
                assert answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR, (path, answer.text)
    print(json.dumps(built))


if __name__ == "__main__":
    _main()
