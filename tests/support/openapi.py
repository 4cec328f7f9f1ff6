"""The OpenAPI document: FastAPI's, with docstrings of fields, roles, and the bodies that handlers parse themselves.

``make docs`` writes it into the package, which serves it from there.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from http import HTTPStatus
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema, ModelSchema

from tidemark.controller.base.answer import Page
from tidemark.controller.reports.sent_bodies import ReportBody
from tidemark.controller.server import schemas
from tidemark.controller.server.http.authorize import need_of
from tidemark.controller.server.http.bodies import PinBody, ReasonBody, RotationBody, TokenBody
from tidemark.controller.server.http.openapi import SAID
from tidemark.models.base.ranges import STRICT
from tidemark.models.evidence.late_counts import LateCounts
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer
from tidemark.models.specs.fields import spec_fields
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

API_VERSION = "1"
"""Version of the interface, not of the release: it grows when callers have to change."""

EXAMPLES_FILE = Path(__file__).with_name("examples.json")
"""What a controller was asked and answered: by operation, and by kind of problem. ``make docs`` writes it."""

_DESCRIPTION = """\
Jobs report, per partition, how late their rows are; Tidemark recommends the lateness bound that meets a completeness
SLO at the lowest latency.

Times are integer microseconds (`_us`) or milliseconds (`_ms`), shares are integers in parts per million (`_ppm`); there
are no floats. `null` is unknown, never 0. Every error is a problem document (RFC 9457). Bodies
may be sent with `Content-Encoding: gzip`."""

_OF_THE_PAGE = frozenset({"getPreview", "getHistory", "getHeatmap", "getBudget"})
"""Operations whose answers have the shape of a part of the page."""

_BODIES = (
    Acknowledgement,
    JoinSlo,
    LateCounts,
    PinBody,
    Policy,
    ReasonBody,
    ReportBody,
    RotationBody,
    Slo,
    TokenBody,
)
"""What requests bring, and handlers parse themselves."""


class ReportBodyPage(Page):
    """A page of reports as they were sent, those of the newest batches first."""

    reports: list[ReportBody]
    """The reports."""


_METRICS = "Metrics for Prometheus."


def as_text(app: FastAPI) -> str:
    """Return the document as it is committed."""
    return json.dumps(document_of(app), indent=2, ensure_ascii=False) + "\n"


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the document."""
    document = get_openapi(
        title="Tidemark controller",
        version=API_VERSION,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        routes=app.routes,
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            _describe(operation)
    inputs: list[tuple[Any, Literal["validation", "serialization"]]] = [
        (kind, "validation") for kind in (*_BODIES, ReportBodyPage)
    ]
    inputs += [(kind, "serialization") for kind in (BoundAnswer, *_answers(document))]
    _, defined = TypeAdapter.json_schemas(
        [(kind.__name__, mode, TypeAdapter(kind)) for kind, mode in inputs],
        ref_template="#/components/schemas/{model}",
        schema_generator=_DescribedFields,
    )
    found = defined["$defs"]
    document["components"] = {"schemas": dict(sorted(found.items()))}
    _document_access(document)
    _mark_unstable(document)
    _add_examples(document)
    return document


def _answers(document: dict[str, Any]) -> list[Any]:
    """Return the classes of the answers that operations name."""
    modules = [import_module(f"{schemas.__name__}.{each.name}") for each in iter_modules(schemas.__path__)]
    known = {name: kind for module in modules for name, kind in vars(module).items()}
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document["paths"])))
    return [known[name] for name in sorted(named) if name in known]


def _mark_unstable(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            if operation["operationId"] in _OF_THE_PAGE:
                operation["x-unstable"] = True
                operation["description"] += (
                    "\n\nUnstable: it is made for the page and may change in any release."
                )


_SCHEME = "bearer"
"""Name of the security scheme."""

_CHALLENGE = {
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string"},
        "example": 'Bearer realm="tidemark"',
    }
}
_RETRY = {
    "Retry-After": {
        "description": "Seconds to wait.",
        "schema": {"type": "string", "pattern": r"^\d+$"},
        "example": "1",
    }
}
_ERRORS = {401: _CHALLENGE, 403: _CHALLENGE, 429: _RETRY}


def _document_access(document: dict[str, Any]) -> None:
    """Add to ``document`` what each operation requires."""
    document["components"]["securitySchemes"] = {
        _SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `tidemark token create`, or of a trusted issuer. While there is neither, and "
            "no authenticating proxy, requests from the controller's own machine need none.",
        }
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            _document_of_security(operation)


def _document_of_security(operation: dict[str, Any]) -> None:
    need = need_of(operation["operationId"])
    if need is None:
        operation["security"] = []
        return
    operation["security"] = [{_SCHEME: []}]
    operation["description"] += f"\n\nRoles: {', '.join(need.roles)}."
    errors = {str(status): {**_problem(status), "headers": found} for status, found in _ERRORS.items()}
    operation["responses"] = dict(sorted({**errors, **operation["responses"]}.items()))


class _DescribedFields(GenerateJsonSchema):
    """Generates JSON schemas in which fields have their docstrings as descriptions, inherited ones too.

    What people set also has titles, help and examples for forms.
    """

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        """Return the schema of a dataclass; as an answer it has all of its fields, and a later release may add some."""
        kind = schema["cls"]
        found = _described(super().dataclass_schema(schema), kind)
        if self.mode == "serialization" and vars(kind).get("__pydantic_config__") is not STRICT:
            found.pop("additionalProperties", None)
            found["required"] = [*found["properties"]]
            for described in found["properties"].values():
                described.pop("default", None)
        return found

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model; all of them are answers, and a later release may add to those."""
        found = _described(super().model_schema(schema), schema["cls"])
        del found["additionalProperties"]
        return found


def _described(found: JsonSchemaValue, kind: type[Any]) -> JsonSchemaValue:
    for base in kind.__mro__:
        for name, text in _docstrings(base.__module__).get(base.__qualname__, {}).items():
            if name in found["properties"]:
                found["properties"][name].setdefault("description", text)
    for field in spec_fields(kind) if is_dataclass(kind) else ():
        described = found["properties"][field.name]
        described["description"], described["title"] = field.description, field.label
        described["x-help"] = field.shown.help
        if isinstance(field.shown.example, int):
            described["examples"] = [field.shown.example]
    return found


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of fields by the classes of a module of ours."""
    if not module.startswith(("tidemark.", __name__)):
        return {}
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {part.name: dict(_fields(part.body)) for part in body if isinstance(part, ast.ClassDef)}


def _fields(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, behind in pairwise(body):
        match field, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)
            case _:
                pass


_USUAL = {
    400: "malformed-body",
    401: "unauthenticated",
    403: "forbidden",
    404: "stream-not-found",
    408: "request-too-slow",
    409: "report-conflict",
    412: "precondition-failed",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "invalid-body",
    428: "precondition-required",
    429: "too-many-requests",
    503: "store-unavailable",
}
"""By status, the kind of problem that is shown where a route names no other."""

_ETAG = {
    "ETag": {
        "description": "Version of the resource, opaque.",
        "schema": {"type": "string"},
        "example": '"3-5d41402abc4b2a76"',
    }
}
_APPLIED = {
    "Preference-Applied": {
        "description": "The wait of Prefer that was applied, in seconds; missing when none was requested.",
        "schema": {"type": "string"},
        "example": "wait=30",
    }
}
_HEADERS = {
    "SloAnswer": _ETAG,
    "PolicyAnswer": _ETAG,
    "SloSet": _ETAG,
    "PolicySet": _ETAG,
    "JoinAnswer": _ETAG,
    "PinAnswer": _ETAG,
    "StreamStatus": _ETAG,
    "StreamDeleted": _ETAG,
    "FleetPage": _ETAG,
    "BoundAnswer": {**_ETAG, **_APPLIED},
}
_DESCRIPTIONS = {
    200: "Done.",
    201: "Received and committed.",
    304: "The caller's version is still current.",
    400: "The body cannot be read: not JSON, or not the gzip it says it is.",
    401: "The caller is not authenticated.",
    403: "The caller is not allowed to do this.",
    404: "It is unknown here.",
    408: "The body did not arrive in time; try again.",
    409: "It contradicts what is stored; nothing was changed.",
    412: "The version that If-Match names is not the current one.",
    413: "The body is larger than the controller reads.",
    415: "The body is not application/json, or its encoding is not gzip.",
    422: "The request is readable but not valid; nothing of it was stored.",
    428: "It would replace an existing version: If-Match has to name that, as in ETag.",
    429: "The caller sends too many requests; nothing was done.",
    503: "The store does not answer, or the service is unhealthy; try again.",
}


def _describe(operation: dict[str, Any]) -> None:
    """Put into an operation what follows from what its route says."""
    said = operation.pop(SAID, None)
    if said is None:
        text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
        operation["responses"] = {"200": {"description": _METRICS, **text}, "422": _problem(422)}
        return
    if said["body"]:
        schema = _reference(said["body"])
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    successes = {200, 201} & set(said["statuses"]) or {200}
    operation["responses"] = {
        str(status): _problem(status, said["kinds"].get(str(status)))
        if status >= HTTPStatus.BAD_REQUEST
        else _answer(said["answer"], status)
        for status in sorted(successes.union(said["statuses"]))
    }
    if successes == {200, 201}:
        operation["responses"]["200"]["description"] = "Received before; nothing was changed."


def _answer(name: str, status: int) -> dict[str, Any]:
    """Return the description of an answer that is no problem."""
    described: dict[str, Any] = {"description": _DESCRIPTIONS[status]}
    if status < HTTPStatus.MULTIPLE_CHOICES:
        described["content"] = {"application/json": {"schema": _reference(name)}}
    if name in _HEADERS:
        described["headers"] = _HEADERS[name]
    return described


def _problem(status: int, kind: str | None = None) -> dict[str, Any]:
    """Return the description of a problem; ``kind`` is None for the usual one of its status."""
    content = {"schema": _reference("Problem"), "example": kind or _USUAL[status]}
    return {"description": _DESCRIPTIONS[status], "content": {"application/problem+json": content}}


def _add_examples(document: dict[str, Any]) -> None:
    """Put what was asked and answered into ``document``; FastAPI would leave the nulls out."""
    examples = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
    for operations in document["paths"].values():
        for operation in operations.values():
            shown = examples["operations"].get(operation["operationId"], {"answers": {}})
            if "requestBody" in operation and "body" in shown:
                operation["requestBody"]["content"]["application/json"]["example"] = shown["body"]
            for status, answer in operation["responses"].items():
                content = answer.get("content", {})
                if "application/problem+json" in content:
                    described = content["application/problem+json"]
                    described["example"] = examples["problems"][described["example"]]
                elif status in shown["answers"]:
                    content["application/json"]["example"] = shown["answers"][status]


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
