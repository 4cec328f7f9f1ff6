"""The sensor of a window, as a DAG names it, and what waits for it in Airflow's triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from tidemark.controller.tools.client import Client, ClientError, RequestRejectedError, UnreachableError
from tidemark.controller.tools.client.address import stream_path
from tidemark.controller.tools.client.client import POLL_SECONDS, WAIT_SECONDS
from tidemark.controller.tools.client.operations import checked
from tidemark.controller.tools.client.window_text import parse_end, sentence
from tidemark.models.base.target import parse_target
from tidemark.models.completeness.outcome import Window

try:
    from airflow.sdk import BaseHook, BaseSensorOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
except ImportError:  # Airflow 2
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout
    from airflow.hooks.base import BaseHook
    from airflow.sensors.base import BaseSensorOperator

_STAYS = frozenset({"Reached", "Unreachable", "Rejected"})
_BUSY = frozenset({429, 503})


class WindowTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is not there where types are checked
    """Waits until a window has a share of its rows, or cannot have it any more; while the controller is away, too.

    Its event has an ``outcome``, a window's or ``Rejected`` or ``Away``, and the ``text`` that says the same to people.

    Args:
        conn_id: name of the Airflow connection.
        path: that of the window in the controller's interface.
        share_ppm: the share, in parts per million; None: the target of the SLO, or 99.5 %.
        until: end of the wait, in seconds since the epoch, so that another triggerer can go on with it.
    """

    def __init__(self, *, conn_id: str, path: str, share_ppm: int | None, until: float) -> None:
        super().__init__()
        self._arguments = {"conn_id": conn_id, "path": path, "share_ppm": share_ppm, "until": until}
        self._conn_id, self._path, self._share_ppm, self._until = conn_id, path, share_ppm, until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again."""
        return f"{__name__}.{type(self).__name__}", self._arguments

    async def run(self) -> AsyncIterator[Any]:
        """Yield one event, when nothing else can come or the time is up."""
        said = ""
        while True:
            left = max(self._until - time.time(), 0)
            event, waited = await self.look(min(round(left), WAIT_SECONDS))
            left = self._until - time.time()
            if event["outcome"] in _STAYS or left < 1:
                yield TriggerEvent(event)
                return
            if event["text"] != said:
                said = event["text"]
                self.log.info("waiting: %s", said)
            if not waited:
                await asyncio.sleep(min(POLL_SECONDS, left))

    async def look(self, wait_seconds: int = 0) -> tuple[dict[str, str], bool]:
        """Ask once; return the event as of now, and whether the controller held its answer back."""
        # Read each time, so that its token may be rotated.
        client = _client(await sync_to_async(BaseHook.get_connection)(self._conn_id))
        headers, params = {"Prefer": f"wait={wait_seconds}"}, {"share_ppm": self._share_ppm}
        try:
            answer = await client.ask(self._path, params, headers, wait_seconds)
            window = checked(Window, answer.content)
        except ClientError as error:
            busy = isinstance(error, RequestRejectedError) and error.status in _BUSY
            away = busy or isinstance(error, UnreachableError)
            return {"outcome": "Away" if away else "Rejected", "text": str(error)}, False
        return {"outcome": window.outcome, "text": sentence(window)}, "preference-applied" in answer.headers


def _client(connection: Any) -> Client:
    """Return a client for a connection: its host is an address, or a name with a port; its password is the token."""
    host, kinds = connection.host or "localhost", {connection.conn_type, connection.schema}
    url = host if "://" in host else f"{'https' if 'https' in kinds else 'http'}://{host}"
    return Client(f"{url}:{connection.port}" if connection.port else url, token=connection.password or "")


class WindowSensor(BaseSensorOperator):  # type: ignore[misc]  # as above
    """Waits until a window of a stream has a share of its rows, and the job's result has that share of them.

    It fails at once, and is not retried, when the share cannot be reached any more; after ``timeout`` as every sensor.
    While the controller is away it waits. The log says how much has come, with its interval, and who is missing.

    Args:
        job: name of the job.
        stream: name of the stream.
        window: end of the window, a time with a zone; by default that of the run's data interval.
        share: the share of its rows, such as ``99.5%``; None: the target of the SLO, or 99.5 %.
        tidemark_conn_id: the Airflow connection; its host is the controller's address, its password the token.
        deferrable: wait in the triggerer, where it takes no worker's slot.
    """

    template_fields = ("job", "stream", "window", "share", "tidemark_conn_id")

    def __init__(
        self,
        *,
        job: str,
        stream: str,
        window: str = "{{ data_interval_end }}",
        share: str | None = None,
        tidemark_conn_id: str = "tidemark_default",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.stream = stream
        self.window = window
        self.share = share
        self.tidemark_conn_id = tidemark_conn_id
        self.deferrable = deferrable

    def poke(self, context: Mapping[str, Any]) -> bool:  # noqa: ARG002  # Airflow passes it
        """Return whether the share is reached; if it is not yet, and may be deferred, the triggerer waits on."""
        trigger = WindowTrigger(
            conn_id=self.tidemark_conn_id,
            # A time where templates have native types.
            path=stream_path(self.job, self.stream, f"/windows/{parse_end(str(self.window))}"),
            share_ppm=None if self.share is None else parse_target(self.share),
            until=time.time() + self.timeout,
        )
        event, _ = asyncio.run(trigger.look())
        if event["outcome"] in _STAYS:
            self.execute_complete({}, event)
            return True
        self.log.info("waiting: %s", event["text"])
        if self.deferrable:
            # Later than the trigger itself, which says why: where no triggerer runs.
            timeout = timedelta(seconds=self.timeout, minutes=5)
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
        return False

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, str]) -> None:  # noqa: ARG002
        """End as the event says."""
        errors = {"Unreachable": AirflowFailException, "Rejected": AirflowException}
        if event["outcome"] in errors:
            raise errors[event["outcome"]](event["text"])
        if event["outcome"] != "Reached":
            raise AirflowSensorTimeout(f"not in time: {event['text']}")
        self.log.info("%s", event["text"])
