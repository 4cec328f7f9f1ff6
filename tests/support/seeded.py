"""Stores that a story has filled once in a process: each test is given a copy of its own, and a controller on it."""

from __future__ import annotations

import copy
import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.controller_app import Controller
from support.empty_store import copy_postgres, new_postgres, put_sqlite

__all__ = ["continued"]

T = TypeVar("T")


@contextmanager
def continued(url: str, story: Callable[[Controller], T], **settings: Any) -> Iterator[T]:
    """Run a controller where ``story`` has happened, and give what the story returned, now of that controller.

    Args:
        url: a SQLite file that is not there yet, or the PostgreSQL that tests share.
        story: a function of a module; it runs once for each kind of database.
        settings: the controller's.
    """
    if url.startswith("sqlite"):
        store, before, found = _sqlite(story)
        put_sqlite(url, store)
    else:
        template, before, found = _postgres(story, url)
        url = copy_postgres(url, template)
    controller = Controller(url, **settings)
    controller.clock.now_us = before.clock.now_us
    with controller:
        yield copy.deepcopy(found, {id(before): controller})


@functools.cache
def _sqlite(story: Callable[[Controller], Any]) -> tuple[bytes, Controller, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "story.db"
        with Controller(f"sqlite:///{path}") as controller:
            found = story(controller)
        assert not path.with_name("story.db-wal").exists(), "not all of the store is in its file"
        return path.read_bytes(), controller, found


@functools.cache
def _postgres(story: Callable[[Controller], Any], server_url: str) -> tuple[str, Controller, Any]:
    url = new_postgres(server_url)
    with Controller(url) as controller:
        found = story(controller)
    return url, controller, found
