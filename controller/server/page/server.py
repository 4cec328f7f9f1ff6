"""Serve the page: the files of the folder ``static``. They are the same for everybody and hold no data.

The address of each file contains a version made from the content of all files, so browsers keep files for good. The
document at ``/``, which names them, is requested afresh each time.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from tidemark.controller.server.http.etags import etag, is_current
from tidemark.controller.server.process.service import Service

FOLDER = Path(__file__).parent / "static"
"""The folder of the files."""

_DOCUMENT = "index.html"
"""The file that is served at ``/``."""

DOCUMENT_PATH = "/"
"""Path of the document."""

FILES_PATH = "/page/{version}/{name:path}"
"""Path of all other files."""

_VERSION_MARK = "@version"
"""Stands for the version in the document."""

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by suffix. Files with other suffixes, such as licences and notes, are not served."""

_FOR_GOOD = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"

_POLICY = "Content-Security-Policy"

HEADERS = MappingProxyType(
    {
        # Nothing from other hosts, no script in the document, and no text that becomes markup.
        _POLICY: "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)
"""Headers of every answer that has a file of the page."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    content: bytes
    """Its bytes."""
    media_type: str
    """Its media type."""
    tag: str
    """Its ETag."""


@dataclass(frozen=True, slots=True)
class PageFiles:
    """All files of the page."""

    version: str
    """Changes with the content of any of them."""
    document: PageFile
    """The file served at ``/``."""
    files: dict[str, PageFile]
    """The others, by their path in the folder."""


@functools.cache
def read_page(folder: Path = FOLDER) -> PageFiles:
    """Read the page's files, once in a process."""
    contents = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    version = hashlib.sha256()
    for name, content in contents.items():
        version.update(f"{name}\0{len(content)}\0".encode())
        version.update(content)
    named = version.hexdigest()[:16]
    document = contents.pop(_DOCUMENT).replace(_VERSION_MARK.encode(), named.encode())
    return PageFiles(
        named, _file(_DOCUMENT, document), {name: _file(name, contents[name]) for name in contents}
    )


def install(app: FastAPI) -> None:
    """Let ``app`` serve the page to everybody: access is checked where the data are."""
    page = read_page()

    async def document(request: Request) -> Response:
        service: Service = request.app.state.service
        return _answer(request, page.document, _ASK_AGAIN, service.authenticator.issuers.origins)

    async def file(request: Request) -> Response:
        found = page.files.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        # During an upgrade, the file may be asked of another release: browsers must not keep that answer.
        known = request.path_params["version"] == page.version
        return _answer(request, found, _FOR_GOOD if known else _ASK_AGAIN)

    app.router.routes.append(_NamedRoute(DOCUMENT_PATH, document))
    app.router.routes.append(_NamedRoute(FILES_PATH, file))


class _NamedRoute(Route):
    """A route that the request log names by its template, as it does the routes of the API."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, found if match is Match.NONE else {**found, "route": self}


def _file(name: str, content: bytes) -> PageFile:
    return PageFile(content, MEDIA_TYPES[Path(name).suffix], etag(hashlib.sha256(content).hexdigest()[:32]))


def _answer(request: Request, file: PageFile, cache: str, issuers: Iterable[str] = ()) -> Response:
    """Return a file; the document may also send requests to issuers, by their origins, where people sign in."""
    origins = "".join(f" {origin}" for origin in issuers)
    # Browsers keep the policy of a document that has not changed, so the tag changes with it.
    tag = etag(hashlib.sha256(f"{file.tag}{origins}".encode()).hexdigest()[:32]) if origins else file.tag
    headers: dict[str, Any] = {**HEADERS, "ETag": tag, "Cache-Control": cache}
    if origins:
        headers[_POLICY] += f"; connect-src 'self'{origins}"
    if is_current(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
