"""Tidemark's lines in the log of a driver, also where nobody configured Python's logging."""

from __future__ import annotations

import logging
import sys

_log = logging.getLogger("tidemark.spark")


def _is_taken() -> bool:
    """Whether the program has a handler for what Tidemark logs."""
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(handler is not _last_resort for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


# Python's own last resort prints a message alone, so nobody would know whose it is.
_last_resort = logging.StreamHandler()
_last_resort.setLevel(logging.WARNING)
_last_resort.setFormatter(logging.Formatter("tidemark: %(message)s"))
_last_resort.addFilter(lambda _: not _is_taken())
_log.addHandler(_last_resort)


def print_or_log(line: str) -> None:
    """Log one line so that it is in the driver's log even if nobody configured Python's logging."""
    if _log.isEnabledFor(logging.INFO) and _is_taken():
        _log.info("tidemark: %s", line)
    else:
        print(f"tidemark: {line}", file=sys.stderr, flush=True)  # noqa: T201
