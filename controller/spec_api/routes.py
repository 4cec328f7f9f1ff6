"""The routes of every kind of specification: to read it with an ETag, to set and to delete it with If-Match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.access.principal import Principal
from tidemark.controller.api.bodies import parse_body
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, etag, precondition
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.writes import DryRun, Reason
from tidemark.controller.service import Service
from tidemark.controller.spec_api.consequences import decide_now
from tidemark.controller.specs.kinds import Precondition

P = TypeVar("P")
T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Operation:
    """What the document says of an operation beside what it says of all kinds."""

    summary: str
    text: str
    problems: Mapping[int, str] = field(default_factory=dict)
    """By status the kind of problem that is shown as an example; empty for the usual one of the status."""


@dataclass(frozen=True, slots=True)
class SpecRequest:
    """What a request brings to the handlers of a kind."""

    service: Service
    session: Session
    principal: Principal
    now_us: int
    check: Precondition
    """What If-Match asks for."""
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Done(Generic[P, S]):
    """A write, before or after it is committed."""

    which: P
    """What it was about."""
    stored: S
    """What is stored now; after a deletion, what was stored."""
    version: str = ""
    """Its version; empty after a deletion."""
    decided: Sequence[int] = ()
    """Ids of the streams about which is decided anew after the commit."""


class SpecRoutes(ABC, Generic[P, T, S]):
    """The routes of a kind: what a path names, ``P``, a body, ``T``, and what is stored, ``S``."""

    path: str
    noun: str
    """The end of the operation ids, such as Slo of getSlo."""
    which: Any
    """The dependency that returns what the path names."""
    body: type[T]
    read_answer: type[Any]
    written_answer: type[Any]
    get: Operation
    put: Operation
    delete: Operation
    reason_in_body: bool = False
    """Whether the body of a PUT has the reason, and not the query."""
    deletes_any: bool = False
    """Whether a deletion needs no If-Match."""

    @abstractmethod
    def read(self, request: SpecRequest, which: P) -> tuple[object, str]:
        """Return what is stored as it is answered, and its version.

        Raises:
            TidemarkError: when nothing is.
        """

    @abstractmethod
    def write(self, request: SpecRequest, which: P, value: T) -> Done[P, S]:
        """Store a value and publish what follows at once."""

    @abstractmethod
    def remove(self, request: SpecRequest, which: P) -> Done[P, S]:
        """Delete what is stored and publish what follows at once."""

    @abstractmethod
    def answer(self, request: SpecRequest, done: Done[P, S]) -> object:
        """Return the answer of a write: of a dry run before it is rolled back, of any other after the decisions."""


def routes_of(spec: SpecRoutes[P, T, S]) -> APIRouter:
    """Return the routes of a kind."""
    router = APIRouter()
    adapter: TypeAdapter[T] = TypeAdapter(spec.body)

    def read(
        which: P, service: TheService, principal: ThePrincipal, if_none_match: IfNoneMatch = None
    ) -> Response:
        with service.database.read() as session:
            request = SpecRequest(service, session, principal, service.clock(), precondition(None))
            answer, version = spec.read(request, which)
            return answered(answer, if_none_match, version)

    def write(
        which: P,
        body: JsonBody,
        service: TheService,
        principal: ThePrincipal,
        response: Response,
        *,
        dry_run: DryRun,
        reason: Reason = "",
        if_match: IfMatch = None,
    ) -> object:
        value = parse_body(adapter, body)
        check = precondition(if_match)

        def change(session: Session) -> tuple[SpecRequest, Done[P, S]]:
            request = SpecRequest(service, session, principal, service.clock(), check, reason, dry_run)
            done = spec.write(request, which, value)
            response.headers["ETag"] = etag(done.version)
            return request, done

        return _changed(spec, service, change, dry_run=dry_run)

    def remove(
        which: P,
        service: TheService,
        principal: ThePrincipal,
        *,
        dry_run: DryRun,
        reason: Reason,
        if_match: IfMatch = None,
    ) -> object:
        check = precondition(if_match, optional=spec.deletes_any)

        def change(session: Session) -> tuple[SpecRequest, Done[P, S]]:
            request = SpecRequest(service, session, principal, service.clock(), check, reason, dry_run)
            return request, spec.remove(request, which)

        return _changed(spec, service, change, dry_run=dry_run)

    def add(method: str, handler: Callable[..., Any], statuses: Sequence[int], **more: Any) -> None:
        operation: Operation = getattr(spec, method)
        answer = spec.read_answer if method == "get" else spec.written_answer
        taken = signature(handler, eval_str=True)
        parameters = [
            parameter.replace(annotation=spec.which) if parameter.name == "which" else parameter
            for parameter in taken.parameters.values()
            if not (parameter.name == "reason" and handler is write and spec.reason_in_body)
        ]
        handler.__signature__ = taken.replace(parameters=parameters)  # type: ignore[attr-defined]
        router.add_api_route(
            spec.path,
            handler,
            methods=[method.upper()],
            operation_id=f"{method}{spec.noun}",
            summary=operation.summary,
            description=operation.text,
            response_model=answer,
            responses=answers(
                answer.__name__,
                *sorted({*statuses, *operation.problems}),
                kinds={status: kind for status, kind in operation.problems.items() if kind},
            ),
            **more,
        )

    add("get", read, (304, 404, 422, 503))
    add("put", write, (400, 408, 412, 413, 415, 422, 428, 503), openapi_extra=takes(spec.body.__name__))
    add("delete", remove, (404, 412, 422, 503) if spec.deletes_any else (404, 412, 422, 428, 503))
    return router


def _changed(
    spec: SpecRoutes[P, T, S],
    service: Service,
    change: Callable[[Session], tuple[SpecRequest, Done[P, S]]],
    *,
    dry_run: bool,
) -> object:
    """Make a change and return the answer; a dry run is answered from what is then rolled back."""
    with service.database.write(keep=not dry_run) as session:
        request, done = change(session)
        if dry_run:
            session.flush()
            return spec.answer(request, done)
    service.database.answers_changed()
    for stream_id in done.decided:
        decide_now(service, stream_id)
    with service.database.read() as session:
        return spec.answer(replace(request, session=session), done)
