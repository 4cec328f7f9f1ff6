"""What one server process on one core takes in: reports a second, how long each waits, memory; and open long polls.

The server runs on one core, its clients (and PostgreSQL) on the other. Every answer is checked, and at the end that
everything acknowledged is stored. What a report adds by partition is counted later, and streams are summarised every 15
seconds: so the last run goes on for longer than both take.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tidemark.models.protocol.messages import to_json_object

from support.bench_client import post_all
from support.bench_server import on_core, percentile, serving
from support.postgres import find_postgres, running_postgres
from support.process_usage import busy_seconds, status_of
from support.reports import dense_report

pytestmark = pytest.mark.bench

SHAPES = {"16 x 6": (16, 6), "64 x 50": (64, 50)}
"""Partitions of a report, and counted granules of each."""
AIMS_PER_SECOND = {
    ("16 x 6", "sqlite"): 1_000,
    ("16 x 6", "postgresql"): 500,
    ("64 x 50", "sqlite"): 400,
    ("64 x 50", "postgresql"): 250,
}
STREAMS = int(os.environ.get("TIDEMARK_BENCH_STREAMS", "20"))
REPORTS = 300
LONG_SECONDS = 75
"""Longer than upkeep waits (60 seconds), so that all that follows from a report is done within."""
AT_A_TIME, AT_A_RATE = 32, 64
"""Requests under way at most: flat out, and at a steady rate."""
POLLS = 1_000
AIM_P99_MS = 100


def bodies(first: int, count: int, shape: str) -> Iterator[tuple[str, bytes]]:
    """Reports of all streams one after the other, from a batch on: their paths and JSON, made as they are sent."""
    text = b""
    for number in range(count):
        batch, stream = first + number // STREAMS, number % STREAMS
        if stream == 0:
            partitions, granules = SHAPES[shape]
            body = dense_report(batch, partitions=partitions, granules=granules, stream="STREAM")
            text = json.dumps(to_json_object(body)).encode()
        yield f"/v1/jobs/job/streams/s{stream}/reports", text.replace(b"STREAM", f"s{stream}".encode())


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tidemark.db'}"
        return
    programs = find_postgres()
    if programs is None:
        pytest.skip("there is no PostgreSQL here; `make services` installs it")
    with on_core(max(os.sched_getaffinity(0))), running_postgres(programs, as_installed=True) as url:
        yield url


@pytest.mark.parametrize("shape", SHAPES)
def test_reports_committed_a_second(store_url: str, tmp_path: Path, shape: str) -> None:
    stored = 0
    store = store_url.partition(":")[0].partition("+")[0]
    with serving(store_url, tmp_path) as (url, process), on_core(max(os.sched_getaffinity(0))):

        def run(name: str, count: int, per_second: float | None) -> float:
            nonlocal stored
            began, used = time.perf_counter(), busy_seconds(process)
            sent = bodies(-(-stored // STREAMS), count, shape)
            at_a_time = AT_A_TIME if per_second is None else AT_A_RATE
            seconds = asyncio.run(post_all(url, sent, at_a_time, per_second))
            took, used = time.perf_counter() - began, busy_seconds(process) - used
            stored += count
            print(
                f"\n{store:10} {shape:7} {name:10}: {count / took:6.0f} reports/s of {STREAMS} streams, "
                f"{1e3 * percentile(seconds, 0.5):6.1f} ms 50th, {1e3 * percentile(seconds, 0.99):6.1f} ms 99th; "
                f"{1e3 * used / count:5.2f} ms of the server's core each; peak {status_of(process, 'VmHWM') // 1024} "
                f"MB (aim {AIMS_PER_SECOND[shape, store]}/s, {AIM_P99_MS} ms at half)",
                end="",
            )
            return count / took

        run("first", REPORTS, None)
        rate = run("flat out", 10 * REPORTS, None)
        # Half of what it can do, for longer: how long one waits when it is not a matter of how many wait before.
        run("half, long", int(rate / 2 * LONG_SECONDS), rate / 2)
        metrics = httpx.get(f"{url}/metrics", timeout=60).text
    counted = sum(
        float(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("tidemark_reports_received_total{")
    )
    assert counted == stored


def test_a_thousand_open_long_polls_all_get_the_change(store_url: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4 * POLLS), hard), hard))

    async def poll(url: str, process: int) -> tuple[list[float], int]:
        path = "/v1/jobs/job/streams/s0/bound"
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            held = (await client.get(path)).headers["etag"]
            asked = {"If-None-Match": held, "Prefer": "wait=60"}

            async def wait() -> tuple[int, float]:
                answer = await client.get(path, headers=asked)
                return answer.status_code, time.perf_counter()

            polls = [asyncio.create_task(wait()) for _ in range(POLLS)]
            await _until(client, f"tidemark_bounds_watched {float(POLLS)}")
            memory = status_of(process, "VmRSS") // 1024
            began = time.perf_counter()
            changed = await client.put("/v1/jobs/job/streams/s0/policy", json={"mode": "OnRestart"})
            assert changed.is_success, changed.text
            answers = await asyncio.gather(*polls)
        assert [status for status, _ in answers].count(200) == POLLS
        return [at - began for _, at in answers], memory

    with serving(store_url, tmp_path) as (url, process), on_core(max(os.sched_getaffinity(0))):
        seconds, memory = asyncio.run(poll(url, process))
    print(
        f"\n{store_url.partition(':')[0]:10} {POLLS} long polls: all {len(seconds)} got the change, first after "
        f"{1e3 * min(seconds):.0f} ms, all after {1e3 * max(seconds):.0f} ms; RSS {memory} MB",
        end="",
    )


async def _until(client: httpx.AsyncClient, line: str) -> None:
    deadline = time.monotonic() + 60
    while line not in (await client.get("/metrics")).text:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
