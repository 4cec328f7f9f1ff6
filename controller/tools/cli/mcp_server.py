"""``tidemark mcp``: a controller for agents, by the Model Context Protocol; they can read and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.run import check_job, connect
from tidemark.controller.tools.cli.status import why_text
from tidemark.controller.tools.client.errors import ClientError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from tidemark.controller.tools.client.client import Client

_INSTRUCTIONS = (
    "Tidemark measures how late the rows of Spark Structured Streaming jobs are and steers the delay of their "
    "watermarks (the bound) to a completeness SLO. Begin with `fleet`. Figures that are null are unknown, not 0. "
    "Fields that end with _ms are milliseconds, with _us microseconds, with _ppm parts per million. Nothing can be "
    "changed here: `tidemark` on a command line does that."
)


def mcp(url: str, token_file: Path | None) -> None:
    """Serve a controller to agents over standard input and output (MCP); they can read, and change nothing."""
    with connect(url, token_file) as tidemark:
        server_of(tidemark).run("stdio")


def server_of(tidemark: Client) -> MCPServer:
    """Return the server of a controller's tools, each of which only reads."""
    from mcp.server import MCPServer  # noqa: PLC0415 - only this command needs it
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
    from mcp.types import ToolAnnotations  # noqa: PLC0415
    from pydantic import ValidationError  # noqa: PLC0415

    from tidemark.controller.base.parse_body import error_items  # noqa: PLC0415

    class Server(MCPServer):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                wrong = error.__cause__
                if not isinstance(wrong, ValidationError):
                    raise
                items = error_items(wrong.errors(include_url=False), arguments)
                raise ToolError("; ".join(f"{item.pointer[1:]}: {item.detail}" for item in items)) from None

    server, tools = Server("tidemark", instructions=_INSTRUCTIONS, log_level="WARNING"), _Tools(tidemark)
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.fleet, tools.status, tools.why, tools.what_if, tools.savings):
        server.add_tool(_answering(tool), annotations=reads)
    return server


class _Tools:
    """What agents can ask; their names, arguments and docstrings are what an agent reads."""

    def __init__(self, tidemark: Client) -> None:
        self._tidemark = tidemark

    def fleet(self, job: str | None = None) -> dict[str, Any]:
        """List streams of the fleet, or of one job, silent ones and those with the least budget first, at most 20."""
        return _first(self._tidemark.fleet(self._known(job)))

    def status(self, job: str, stream: str) -> dict[str, Any]:
        """Return all that is known of one stream: SLO, completeness, bounds, rollout, budget and conditions."""
        return {"status": self._tidemark.status(job, stream)}

    def why(self, job: str, stream: str) -> dict[str, Any]:
        """Say why a stream has the bound that it has: in one sentence, and each step of the decision."""
        status = self._tidemark.status(job, stream)
        return {"why": why_text(status), "now": status.summary, "recommended": status.recommended}

    def what_if(self, job: str, stream: str, bounds: list[str]) -> dict[str, Any]:
        """Say what would happen if each of some bounds, such as "30 s", were in force: rows lost, latency, state."""
        asked = [milliseconds_of(bound, "bounds") for bound in bounds]
        return {"previews": [self._tidemark.preview(job, stream, bound) for bound in asked]}

    def savings(self, job: str | None = None) -> dict[str, Any]:
        """Return what the recommended bounds would save in sum, and of the 20 streams that lose or would save most."""
        page = next(self._tidemark.savings(self._known(job)))
        return {"totals": page.totals, **_first(page.streams)}

    def _known(self, job: str | None) -> str | None:
        """Return the name of a job that is known."""
        check_job(self._tidemark, job)
        return job


_MOST_STREAMS = 20
"""How many streams an answer has: an agent reads all of it."""


def _first(streams: Iterable[Any]) -> dict[str, Any]:
    """Return the first streams of a list, and whether there are more."""
    (*first,) = islice(streams, _MOST_STREAMS + 1)
    more = "there are more streams: name a job, or a stream" if len(first) > _MOST_STREAMS else None
    return {"streams": first[:_MOST_STREAMS], "more": more}


def _answering(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a tool whose answer is JSON, and whose failure says to the agent what is wrong."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 - only this command needs it
    from pydantic_core import to_jsonable_python  # noqa: PLC0415

    @wraps(tool)
    def answer(**arguments: Any) -> dict[str, Any]:
        try:
            content: dict[str, Any] = to_jsonable_python(tool(**arguments))
        except (ClientError, ValueError) as error:
            raise ToolError(str(error)) from None
        return content

    return answer
