"""Runs a command for as long as the process that started it lives, and removes its folder.

    python guard.py FOLDER COMMAND ...

Its standard input is a pipe that nobody writes to. When the pipe is closed, or the parent is gone for any reason, the
command is ended and the folder is removed. When the command ends by itself, so does this, with its exit code, and the
folder stays for inspection. Standard library only: it is started as a file, without the site's packages.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys

_CHECK_SECONDS = 0.5
_END_SECONDS = 10


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code, or 0 when it was ended on purpose."""
    folder, *command = arguments
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as running:
        try:
            # A process that the parent forked may hold the pipe open, so the parent itself is checked too.
            while running.poll() is None and os.getppid() == parent:
                if select.select([0], [], [], _CHECK_SECONDS)[0] and not os.read(0, 1):
                    break
            ended = running.poll()
            if ended is not None:
                return ended
        finally:
            _end(running)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _end(running: subprocess.Popen[bytes]) -> None:
    if running.poll() is None:
        running.terminate()
        try:
            running.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
