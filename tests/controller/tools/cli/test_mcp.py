"""``tidemark mcp`` against a real controller, asked by the SDK's own client over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from support.controller_app import Controller
from support.mistakes import report_shop
from support.served import served
from support.tokens import make_token

pytestmark = pytest.mark.slow


@pytest.fixture
def url(controller: Controller) -> Iterator[str]:
    report_shop(controller)
    with served(controller.app) as found:
        yield found


def asked(url: str, *calls: tuple[str, dict[str, Any]], token: str = "") -> tuple[list[Any], list[Any]]:
    """Return the tools of a server, and what it answers to calls of them."""
    # The variable reaches the server alone: the client passes on few of its own.
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tidemark.controller", "mcp", "--url", url],
        env={"TIDEMARK_TOKEN": token},
    )

    async def ask() -> tuple[list[Any], list[Any]]:
        async with Client(stdio_client(server)) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(name, given) for name, given in calls]

    return anyio.run(ask)


def text_of(answer: Any) -> str:
    (found,) = answer.content
    return str(found.text)


def test_an_agent_sees_tools_that_only_read_and_gets_what_the_interface_says(
    controller: Controller, url: str
) -> None:
    clicks = {"job": "shop", "stream": "clicks"}
    tools, answers = asked(
        url,
        ("fleet", {}),
        ("status", clicks),
        ("why", clicks),
        ("what_if", {**clicks, "bounds": ["30 s", "1 min"]}),
        ("savings", {"job": "shop"}),
    )
    assert [tool.name for tool in tools] == ["fleet", "status", "why", "what_if", "savings"]
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    assert not any(answer.is_error for answer in answers)
    fleet, status, why, what_if, savings = (answer.structured_content for answer in answers)
    there = controller.http.get("/v1/jobs/shop/streams/clicks").json()
    assert [row["stream"] for row in fleet["streams"]] == ["clicks", "clicks_eu", "orders"]
    assert status["status"] == there
    assert (why["why"], why["recommended"]) == (there["summary"], there["recommended"])
    assert [one["bound_ms"] for one in what_if["previews"]] == [30_000, 60_000]
    assert savings["totals"]["streams"] == 3


def test_what_an_agent_gets_wrong_is_said_to_it_as_to_a_person(url: str) -> None:
    _, answers = asked(
        url,
        ("why", {"job": "shop", "stream": "click"}),
        ("fleet", {"job": "shpo"}),
        ("what_if", {"job": "shop", "stream": "clicks", "bounds": ["10 sek"]}),
        ("status", {"job": "shop"}),
    )
    assert all(answer.is_error for answer in answers)
    stream, job, bound, missing = map(text_of, answers)
    assert missing == "stream: it is missing"
    assert stream.endswith("; did you mean 'clicks'?")
    assert job.endswith("there is no job 'shpo'; did you mean 'shop'?")
    assert bound.endswith("bounds: duration '10 sek': unknown unit 'sek'; use one of us, ms, s, m, h, d, w")


def test_an_agent_has_the_rights_of_its_token(controller: Controller, url: str) -> None:
    viewer = make_token(controller, "viewer", "shop")
    _, (seen,) = asked(url, ("fleet", {}), token=viewer)
    _, (refused,) = asked(url, ("fleet", {}))
    assert len(seen.structured_content["streams"]) == 3
    assert refused.is_error
    assert "answers 401" in text_of(refused)


def test_an_answer_about_a_fleet_of_any_size_is_short_and_says_that_there_is_more(
    controller: Controller, url: str
) -> None:
    for number in range(60):
        controller.http.put(f"/v1/jobs/fleet/streams/{number}/slo", json={"target_ppm": 990_000})
    _, answers = asked(url, ("savings", {}), ("fleet", {}))
    for found in (answer.structured_content for answer in answers):
        assert len(found["streams"]) == 20
        assert "name a job" in found["more"]
    assert answers[0].structured_content["totals"]["streams"] == 63
