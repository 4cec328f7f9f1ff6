"""A client for benches that costs a tenth of a real one: it must not be what is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

__all__ = ["post_all"]


async def post_all(
    url: str, bodies: Iterator[tuple[str, bytes]], at_a_time: int, per_second: float | None = None
) -> list[float]:
    """Post every body of JSON to its path; return how long each took to be answered with 201, in seconds.

    Args:
        url: address of the server.
        bodies: paths and bodies.
        at_a_time: how many connections there are, with one request each.
        per_second: a steady rate, by which each is timed from when it was due, so that a server that falls behind does
            not hide it; None: as fast as answers come.
    """
    address = urlsplit(url)
    seconds: list[float] = []
    numbered = enumerate(bodies)
    began = time.perf_counter()

    async def sender() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for number, (path, body) in numbered:
            due = time.perf_counter()
            if per_second is not None:
                due = began + number / per_second
                await asyncio.sleep(max(due - time.perf_counter(), 0))
            head = f"POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            writer.write(f"{head}\r\n\r\n".encode() + body)
            await writer.drain()
            answer = await _answer(reader)
            assert answer.startswith(b"HTTP/1.1 201"), answer
            seconds.append(time.perf_counter() - due)
        writer.close()

    await asyncio.gather(*(sender() for _ in range(at_a_time)))
    return seconds


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head + await reader.readexactly(int(length.partition(b":")[2]))
