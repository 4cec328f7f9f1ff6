"""Work in threads beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.patience import PATIENCE_S

__all__ = ["in_threads"]


@contextmanager
def in_threads(*runs: Callable[[], object], over: threading.Event) -> Iterator[None]:
    """Run each in a thread of its own; set ``over`` and wait for all at the end.

    Raises:
        ExceptionGroup: when any of them raised something.
    """
    failed: list[Exception] = []

    def guarded(run: Callable[[], object]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()
    if failed:
        raise ExceptionGroup("threads of the test failed", failed)
