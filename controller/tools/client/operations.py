"""The kinds of operations of the interface: ``Client`` is a table of them, each with its path and its answer's class.

An operation is called with the names in its path and then with its query parameters, in the order of the table or by
name. With ``dry_run`` nothing changes, and the answer says what would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from inspect import Parameter, Signature
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from tidemark.controller.tools.client.errors import (
    ChangedError,
    ControllerUnusableError,
    RequestRejectedError,
)
from tidemark.controller.tools.client.transport import Transport

T = TypeVar("T")
R = TypeVar("R")

PAGE = 100
"""Items requested at a time; lists of jobs have no larger pages."""

_READ_ONLY = frozenset({"generation", "updated_us", "dry_run", "state"})
"""Fields of a specification that are read and not written."""

_FLAGS = {"dry_run": ("dryRun", "All"), "while_reporting": ("whileReporting", "true")}
"""By name in Python, how a flag stands in a query."""

_Args = dict[str, Any]
_Call = Callable[[Transport, str, _Args], R]


class Endpoint(Generic[R]):
    """An operation; as an attribute of a client, what calls it.

    Args:
        path: as in the OpenAPI document, with the names of what else it takes behind a question mark.
        call: sends it to a path, with what else it takes, and returns what the caller gets.
    """

    def __init__(self, path: str, call: _Call[R]) -> None:
        self.path, _, query = path.partition("?")
        self._call = call
        self._names = re.findall(r"{(\w+)}", self.path)
        where = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self._names]
        others = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None)
            for name in query.split("&")
            if name
        ]
        self._signature = Signature([*where, *others])

    def __get__(self, client: Transport, owner: type) -> Callable[..., R]:
        """Return what calls the operation on a client."""
        return partial(self._run, client)

    def _run(self, client: Transport, *values: Any, **named: Any) -> R:
        args = dict(self._signature.bind(*values, **named).arguments)
        where = {name: quote(str(args.pop(name)), safe="") for name in self._names}
        return self._call(client, self.path.format(**where), args)


def read(path: str, kind: type[T]) -> Endpoint[T]:
    """Return an operation that reads one thing."""
    return Endpoint(
        path, lambda client, where, args: checked(kind, client.send("GET", where, params=args).content)
    )


def read_or_none(path: str, kind: type[T]) -> Endpoint[T | None]:
    """Return an operation that reads what need not be there: None when it is not."""

    def call(client: Transport, where: str, _: _Args) -> T | None:
        answer = _if_there(client, where)
        return None if answer is None else checked(kind, answer.content)

    return Endpoint(path, call)


def pages(path: str, kind: type[T]) -> Endpoint[Iterator[T]]:
    """Return an operation that reads a list page after page."""

    def call(client: Transport, where: str, args: _Args) -> Iterator[T]:
        return (checked(kind, page) for page in _pages(client, where, args))

    return Endpoint(path, call)


def items(path: str, kind: type[T], name: str = "") -> Endpoint[Iterator[T]]:
    """Return an operation that reads the items of a list, which has them under ``name``, or under its path's last."""
    listed = name or path.partition("?")[0].rpartition("/")[2]

    def call(client: Transport, where: str, args: _Args) -> Iterator[T]:
        for page in _pages(client, where, args):
            if not isinstance(page.get(listed), list):
                raise ControllerUnusableError(f"{client.url} does not list {listed} as a controller does")
            yield from (checked(kind, item) for item in page[listed])

    return Endpoint(path, call)


def act(path: str, kind: type[T]) -> Endpoint[T]:
    """Return an operation that does something for a reason, which may be sent again."""

    def call(client: Transport, where: str, args: _Args) -> T:
        body = {"reason": args.pop("reason", None)}
        return checked(
            kind, client.send("POST", where, body=body, params=in_query(args), idempotent=True).content
        )

    return Endpoint(f"{path}?reason&dry_run", call)


def send(method: str, path: str, kind: type[T], *, idempotent: bool = False) -> Endpoint[T]:
    """Return an operation that sends a body, or nothing but its query."""

    def call(client: Transport, where: str, args: _Args) -> T:
        body = args.pop("body", None)
        answer = client.send(method, where, body=body, params=in_query(args), idempotent=idempotent)
        return checked(kind, answer.content)

    return Endpoint(path, call)


def change(path: str, kind: type[T]) -> Endpoint[T]:
    """Return an operation that changes fields of a specification, or sets one; the others stay as they are read.

    Without ``create`` a stream that is not known is an error (``stream-not-found``). When somebody else changes it
    between the read and the write, that raises ``ChangedError``, and nothing is written.
    """

    def call(client: Transport, where: str, args: _Args) -> T:
        create, changes = args.pop("create", True), args.pop("changes")
        fields, version = read_specification(client, where, create=create) or ({}, None)
        try:
            return checked(kind, write_specification(client, where, {**fields, **changes}, version, **args))
        except ChangedError as error:
            text = f"somebody else changed {where} at the same time, and nothing was written; try again"
            raise ChangedError(error.status, error.kind, text) from error

    return Endpoint(f"{path}?changes&reason&dry_run&create", call)


def delete(path: str, kind: type[T]) -> Endpoint[T]:
    """Return an operation that deletes a specification as it is read, which has to be there."""

    def call(client: Transport, where: str, args: _Args) -> T:
        version = client.send("GET", where).headers.get("etag", "*")
        return checked(kind, write_specification(client, where, None, version, **args))

    return Endpoint(f"{path}?reason&dry_run", call)


def read_specification(
    client: Transport, where: str, *, create: bool = True
) -> tuple[dict[str, Any], str] | None:
    """Return the fields of a specification that can be written, and its ETag; None when there is none.

    Raises:
        RequestRejectedError: without ``create``, when its stream is not known (``stream-not-found``).
    """
    answer = _if_there(client, where, create=create)
    if answer is None:
        return None
    fields = {name: value for name, value in answer.json().items() if name not in _READ_ONLY}
    return fields, answer.headers.get("etag", "*")


def write_specification(
    client: Transport,
    where: str,
    fields: Mapping[str, Any] | None,
    version: str | None,
    *,
    reason: str | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Replace a specification as a whole, or delete it, and return the answer, unchecked.

    Args:
        where: its path.
        fields: all of its fields; None to delete it.
        version: the ETag of what is replaced; None when there is nothing.
        reason: why, recorded in the event.
        dry_run: change nothing, only answer what would change.

    Raises:
        ChangedError: when something else is there now; then nothing is written.
    """
    method, headers = "DELETE" if fields is None else "PUT", {} if version is None else {"If-Match": version}
    params = in_query({"reason": reason, "dry_run": dry_run})
    answer: dict[str, Any] = client.send(method, where, body=fields, params=params, headers=headers).json()
    return answer


def in_query(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a query has them."""
    flags = {key: text for name, (key, text) in _FLAGS.items() if args.get(name)}
    return {name: value for name, value in args.items() if name not in _FLAGS} | flags


def _if_there(client: Transport, where: str, *, create: bool = True) -> httpx.Response | None:
    try:
        return client.send("GET", where)
    except RequestRejectedError as error:
        if error.status == httpx.codes.NOT_FOUND and (create or not error.of_kind("stream-not-found")):
            return None
        raise


def _pages(client: Transport, where: str, args: _Args) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        page = client.send("GET", where, params={**args, "limit": PAGE, "cursor": cursor}).json()
        yield page
        cursor = page.get("next_cursor")
        if cursor is None:
            return


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def checked(kind: type[T], document: object) -> T:
    """Return an answer as ``kind``, from JSON text or from parsed JSON; fields of a newer controller are passed over.

    Raises:
        ControllerUnusableError: when it is not one.
    """
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    # JSON has no tuples; only requests are checked strictly.
    validate = adapter.validate_json if isinstance(document, bytes) else adapter.validate_python
    try:
        return validate(cast("Any", document), strict=False, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ControllerUnusableError(
            f"the controller's answer cannot be read ({where}: {first['msg']}); is it another release?"
        ) from None
