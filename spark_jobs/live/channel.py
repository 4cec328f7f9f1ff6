"""The channel from the driver to its control sources: a Unix socket in a folder that only the driver's user can enter.

A source asks while Spark plans a batch, so the answer is made of all batches before that one, also of those of which
Spark has not notified the listener yet. Spark waits for the answer; it takes milliseconds, and a source that gets none
within its time limit goes on without.
"""

from __future__ import annotations

import atexit
import json
import logging
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_Offset = dict[str, Any]
_log = logging.getLogger("tidemark.spark")
_LONGEST_PATH = 100


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    answer: Callable[[str, _Offset], _Offset]

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - socketserver's signature
        """Log it: a source that hung up asks again, over a new connection."""
        _log.debug("a control source has hung up", exc_info=True)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer one source for as long as it asks."""
        while size := int.from_bytes(self.rfile.read(4), "big"):
            asked = json.loads(self.rfile.read(size))
            try:
                offset = self.server.answer(asked["stream"], asked["start"])
            except Exception:  # noqa: BLE001 - without an answer the ceiling holds, which is safe
                _log.exception("the control of %s could not be decided; the ceiling holds", asked["stream"])
                offset = asked["start"]
            answer = json.dumps(offset, separators=(",", ":")).encode()
            self.wfile.write(len(answer).to_bytes(4, "big") + answer)


class ControlChannel:
    """Listens for control sources in threads of its own.

    Args:
        answer: returns the offset for ``(stream, start offset)``; the start offset itself leaves the watermark where it
            is.
    """

    def __init__(self, answer: Callable[[str, _Offset], _Offset]) -> None:
        folder = tempfile.mkdtemp(prefix="tidemark-")
        if len(folder) > _LONGEST_PATH:  # more than a socket's address can hold
            Path(folder).rmdir()
            folder = tempfile.mkdtemp(prefix="tidemark-", dir="/tmp")
        self._folder = Path(folder)
        self.path = str(self._folder / "control")
        """Path of the socket."""
        self._server = _Server(self.path, _Handler)
        self._server.answer = answer
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="tidemark-control", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        atexit.unregister(self.close)
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)
