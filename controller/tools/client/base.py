"""How the client calls a controller: requests, pages, changes of a specification, and checked answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

import httpx
from pydantic import TypeAdapter, ValidationError

from tidemark.controller.tools.client.errors import (
    ChangedError,
    ControllerUnusableError,
    RequestRejectedError,
)
from tidemark.controller.tools.client.transport import Transport

T = TypeVar("T")

PAGE = 100
"""Items requested at a time; lists of jobs have no larger pages."""

_READ_ONLY = frozenset({"generation", "updated_us", "dry_run", "state"})
"""Fields of a specification that are read and not written."""


class BaseClient(Transport):
    """The connection to a controller and the kinds of calls; ``Client`` has a method for each route."""

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave nothing open: each request has a connection of its own."""

    def request(
        self,
        method: Literal["GET", "PUT", "POST", "DELETE"],
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        idempotent: bool = False,
    ) -> dict[str, Any]:
        """Send any request and return the object that answers it, unchecked: for routes without a method here.

        Args:
            method: HTTP method.
            path: path under the address, encoded.
            body: the JSON to send; None for none.
            params: query parameters.
            idempotent: whether a post may be sent again.
        """
        answer = self._send(method, path, body=body, params=params, idempotent=idempotent)
        found: dict[str, Any] = answer.json()
        return found

    def _get(self, path: str, kind: type[T], params: Mapping[str, Any] | None = None) -> T:
        return checked(kind, self._send("GET", path, params=params).content)

    def _items(
        self, path: str, name: str, kind: type[T], params: Mapping[str, Any] | None = None
    ) -> Iterator[T]:
        return (checked(kind, item) for item in self.list_unchecked(path, name, params))

    def list_unchecked(
        self, path: str, name: str, params: Mapping[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the items of any list, which has them under ``name``, page after page."""
        cursor: str | None = None
        while True:
            query = {**(params or {}), "limit": PAGE, "cursor": cursor}
            page = self._send("GET", path, params=query).json()
            if not isinstance(page.get(name), list):
                raise ControllerUnusableError(f"{self.url} does not list {name} as a controller does")
            yield from page[name]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def _act(self, path: str, reason: str, kind: type[T], *, dry_run: bool) -> T:
        # Every action is idempotent.
        answer = self._send(
            "POST", path, body={"reason": reason}, params=dry_run_params(dry_run), idempotent=True
        )
        return checked(kind, answer.content)

    def _read_or_none(self, path: str, *, create: bool = True) -> httpx.Response | None:
        try:
            return self._send("GET", path)
        except RequestRejectedError as error:
            if error.status == httpx.codes.NOT_FOUND and (create or not error.of_kind("stream-not-found")):
                return None
            raise

    def _change(
        self,
        path: str,
        changes: Mapping[str, Any],
        kind: type[T],
        *,
        reason: str | None,
        dry_run: bool,
        create: bool = True,
    ) -> T:
        """Change fields of a specification, or set one; the other fields stay as they are read."""
        fields, version = self.read_specification(path, create=create) or ({}, None)
        try:
            found = self.write_specification(
                path, {**fields, **changes}, version, reason=reason, dry_run=dry_run
            )
        except ChangedError as error:
            raise ChangedError(
                error.status,
                error.kind,
                f"somebody else changed {path} at the same time, and nothing was written; try again",
            ) from error
        return checked(kind, found)

    def _delete(self, path: str, kind: type[T], *, reason: str | None, dry_run: bool) -> T:
        """Delete a specification as it is read, which has to be there."""
        version = self._send("GET", path).headers.get("etag", "*")
        return checked(kind, self.write_specification(path, None, version, reason=reason, dry_run=dry_run))

    def read_specification(self, path: str, *, create: bool = True) -> tuple[dict[str, Any], str] | None:
        """Return the fields of a specification that can be written, and its ETag; None when there is none.

        Raises:
            RequestRejectedError: without ``create``, when its stream is not known (``stream-not-found``).
        """
        answer = self._read_or_none(path, create=create)
        if answer is None:
            return None
        return _writable(answer.json()), answer.headers.get("etag", "*")

    def write_specification(
        self,
        path: str,
        fields: Mapping[str, Any] | None,
        version: str | None,
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Replace a specification as a whole, or delete it, and return the answer, unchecked.

        Args:
            path: its path.
            fields: all of its fields; None to delete it.
            version: the ETag of what is replaced; None when there is nothing.
            reason: why, recorded in the event.
            dry_run: change nothing, only answer what would change.

        Raises:
            ChangedError: when something else is there now; then nothing is written.
        """
        method: Literal["PUT", "DELETE"] = "DELETE" if fields is None else "PUT"
        params = {"reason": reason, **dry_run_params(dry_run)}
        headers = {} if version is None else {"If-Match": version}
        found: dict[str, Any] = self._send(method, path, body=fields, params=params, headers=headers).json()
        return found


def dry_run_params(dry_run: bool) -> dict[str, str]:
    """Return the query parameters of a dry run."""
    return {"dryRun": "All"} if dry_run else {}


def _writable(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in _READ_ONLY}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def checked(kind: type[T], document: object) -> T:
    """Return an answer as ``kind``, from JSON text or from parsed JSON.

    Raises:
        ControllerUnusableError: when it is not one.
    """
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    try:
        # JSON has no tuples; only requests are checked strictly.
        if isinstance(document, bytes):
            value = adapter.validate_json(document, strict=False, extra="ignore")
        else:
            value = adapter.validate_python(document, strict=False, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ControllerUnusableError(
            f"the controller's answer cannot be read ({where}: {first['msg']}); is it another release?"
        ) from None
    return value
