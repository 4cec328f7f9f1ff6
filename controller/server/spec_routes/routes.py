"""The routes of every kind of specification: to read it with an ETag, to set and to delete it with If-Match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Response

from tidemark.controller.base.principal import Principal
from tidemark.controller.base.read_spec import parse_spec
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.etags import IfMatch, IfNoneMatch, answered, etag, precondition
from tidemark.controller.server.http.openapi import answers, takes
from tidemark.controller.server.http.parameters import DryRun, Reason, TheService
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.spec_routes.consequences import decide_now
from tidemark.controller.specs.kinds import ChangeRequest, Write

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
class SpecRequest(ChangeRequest):
    """What a request brings to the handlers of a kind; a read changes nothing."""

    service: Service
    principal: Principal
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecRoutes(Generic[P, T, S]):
    """The routes of a kind: what a path names, ``P``, a body, ``T``, and what is stored, ``S``."""

    path: str
    noun: str
    """The end of the operation ids, such as Slo of getSlo."""
    which: Any
    """The dependency that returns what the path names."""
    body: type[T]
    answers: tuple[type[Any], type[Any]]
    """What a read and what a write answers."""
    get: Operation
    put: Operation
    delete: Operation
    read: Callable[[SpecRequest, P], tuple[object, str]]
    """Returns what is stored as it is answered, and its version."""
    write: Callable[[SpecRequest, P, T], Write[S]]
    """Stores a value and publishes what follows at once; about its streams is decided anew after the commit."""
    remove: Callable[[SpecRequest, P], Write[S]]
    """Deletes what is stored, in the same way."""
    answer: Callable[[SpecRequest, Write[S], Sequence[int]], object]
    """Returns the answer of a write, given the ids of its streams, which may be deleted by then: of a dry run before it
    is rolled back, of any other after the decisions."""
    reason_in_body: bool = False
    """Whether the body of a PUT has the reason, and not the query."""
    deletes_any: bool = False
    """Whether a deletion needs no If-Match."""


def routes_of(spec: SpecRoutes[P, T, S]) -> APIRouter:
    """Return the routes of a kind."""
    router = APIRouter()

    def read(
        which: P, service: TheService, principal: ThePrincipal, if_none_match: IfNoneMatch = None
    ) -> Response:
        with service.database.read() as session:
            request = SpecRequest(session, service.clock(), precondition(None), "", service, principal)
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
        value, check, now_us = parse_spec(spec.body, body), precondition(if_match), service.clock()
        with service.database.write(keep=not dry_run) as session:
            request = SpecRequest(session, now_us, check, reason, service, principal, dry_run)
            done = _Done(spec, request, spec.write(request, which, value))
            response.headers["ETag"] = etag(done.write.version)
        return done.answer()

    def remove(
        which: P,
        service: TheService,
        principal: ThePrincipal,
        *,
        dry_run: DryRun,
        reason: Reason,
        if_match: IfMatch = None,
    ) -> object:
        check, now_us = precondition(if_match, optional=spec.deletes_any), service.clock()
        with service.database.write(keep=not dry_run) as session:
            request = SpecRequest(session, now_us, check, reason, service, principal, dry_run)
            done = _Done(spec, request, spec.remove(request, which))
        return done.answer()

    def add(method: str, handler: Callable[..., Any], statuses: Sequence[int], **more: Any) -> None:
        operation: Operation = getattr(spec, method)
        answer = spec.answers[method != "get"]
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


class _Done(Generic[P, T, S]):
    """A write that is not committed yet."""

    def __init__(self, spec: SpecRoutes[P, T, S], request: SpecRequest, write: Write[S]) -> None:
        self._spec, self._request, self.write = spec, request, write
        self._streams = [stream.id for stream in write.streams]
        request.session.flush()
        # Of a dry run, since what it is about is then rolled back.
        self._tried = spec.answer(request, write, self._streams) if request.dry_run else None

    def answer(self) -> object:
        """Return the answer once it is committed, or rolled back: after the decisions about the streams it changed."""
        if self._tried is not None:
            return self._tried
        service = self._request.service
        service.database.answers_changed()
        for stream_id in self._streams:
            decide_now(service, stream_id)
        with service.database.read() as session:
            return self._spec.answer(replace(self._request, session=session), self.write, self._streams)
