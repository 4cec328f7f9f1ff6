"""Other releases, made of this one: bodies with unknown fields, or without those that are optional."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from support.receipts import body_of, sha256_of
from support.tree import ROOT

__all__ = ["DOCUMENT", "OtherRelease", "with_unknown", "without_optional"]

DOCUMENT: dict[str, Any] = json.loads((ROOT / "controller/openapi.json").read_text())

_UNKNOWN = {"of_a_later_release": {"deep": [1, None]}, "_": "text"}


def with_unknown(document: Any) -> Any:
    """Return JSON with fields in each of its objects that no release has."""
    if isinstance(document, list):
        return [with_unknown(each) for each in document]
    if isinstance(document, dict):
        return {**_UNKNOWN, **{name: with_unknown(each) for name, each in document.items()}}
    return document


def without_optional(document: Any, schema: Mapping[str, Any]) -> Any:
    """Return JSON without each field that its schema does not require."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if isinstance(document, list):
        return [without_optional(each, schema["items"]) for each in document]
    if not isinstance(document, dict):
        return document
    if "discriminator" in schema:
        told = schema["discriminator"]
        kind = {"$ref": told["mapping"][document[told["propertyName"]]]}
        return {told["propertyName"]: document[told["propertyName"]], **without_optional(document, kind)}
    if "anyOf" in schema:
        (schema,) = (each for each in schema["anyOf"] if each.get("type") != "null")
        return without_optional(document, schema)
    return {name: without_optional(document[name], schema["properties"][name]) for name in schema["required"]}


class OtherRelease(httpx.AsyncBaseTransport):
    """Lets a client of this release talk as one of another release, with a controller of a later one.

    Args:
        inner: how requests are sent.
        sent: makes of a body what the client's release sends.
    """

    def __init__(self, inner: httpx.BaseTransport, sent: Callable[[Any], Any] = with_unknown) -> None:
        self._inner, self._made = inner, sent
        self.asked: list[str] = []
        """Method and path of each request."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer."""
        self.asked.append(f"{request.method} {request.url.path}")
        content, encoding = await request.aread(), request.headers.get("content-encoding")
        if content:
            body = json.dumps(self._made(json.loads(body_of(content, encoding))))
            headers = {
                name: value
                for name, value in request.headers.items()
                if name not in {"content-length", "content-encoding"}
            }
            request = httpx.Request(
                request.method, request.url, headers=headers, content=body, extensions=request.extensions
            )
        # The thread of the requests is that of all clients.
        answer = await asyncio.to_thread(self._inner.handle_request, request)
        answer.read()
        if not answer.content:
            return answer
        found = answer.json()
        if found.get("body_sha256") is not None:
            # The name of what a client of that release would have sent.
            found["body_sha256"] = sha256_of(content, encoding)
        kept = {name: value for name, value in answer.headers.items() if name in {"etag", "content-type"}}
        return httpx.Response(answer.status_code, headers=kept, json=with_unknown(found), request=request)

    async def aclose(self) -> None:
        """Close the connections."""
        self._inner.close()
