"""The windows that are not final yet, and which of them a batch puts out, in which version. Pure.

A window comes out first when ``early`` reaches its end, again whenever it changes after that, and a last time when the
watermark reaches its end: Spark drops its state then, so that it never changes again. A window here is that of one key
where a query groups by more than the window.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Key = tuple[Hashable, ...]
"""The values of the grouping columns beside the window."""

V = TypeVar("V")


class DuplicateKeyError(ValueError):
    """A batch has two rows of one window and key: not all grouping columns are named."""


class NewVersion(NamedTuple, Generic[V]):
    """A version of a window."""

    version: int
    """1 for the first one, and one more each time."""
    is_final: bool
    """Whether it is the last one."""
    value: V
    """The window's newest value."""


@dataclass(slots=True)
class OpenWindow(Generic[V]):
    """A window that is not final."""

    value: V
    """Its newest value."""
    version: int = 0
    """Its newest version; 0 while it has not come out."""


class OpenWindows(Generic[V]):
    """The open windows of one query.

    Args:
        early_us: all windows that end here or before have come out, in microseconds.
    """

    def __init__(self, early_us: int = 0) -> None:
        self._early_us = early_us
        self._by_end: dict[int, dict[Key, OpenWindow[V]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_end.values()))

    def __iter__(self) -> Iterator[OpenWindow[V]]:
        """Yield every open window, which a caller may give another place for its value."""
        for windows in self._by_end.values():
            yield from windows.values()

    def put_back(self, end_us: int, key: Key, window: OpenWindow[V]) -> None:
        """Add a window as it was when it was saved."""
        self._by_end.setdefault(end_us, {})[key] = window

    def step(
        self, changed: Iterable[tuple[int, Key, V]], early_us: int, watermark_us: int
    ) -> list[NewVersion[V]]:
        """Take the windows that changed in a batch; return the versions that it puts out.

        Work follows the windows that changed or come out, not those that are open.

        Args:
            changed: end in microseconds, key and new value of each.
            early_us: windows that end here or before come out; at least that of the batch before and the watermark.
            watermark_us: windows that end here or before are final.

        Raises:
            DuplicateKeyError: when a window and key comes twice. The state is unusable then.
        """
        touched: dict[int, dict[Key, OpenWindow[V]]] = {}
        for end_us, key, value in changed:
            windows, seen = self._by_end.setdefault(end_us, {}), touched.setdefault(end_us, {})
            if key in seen:
                raise DuplicateKeyError(f"the window that ends at {end_us} us has two rows of the key {key}")
            window = windows.get(key)
            if window is None:
                window = windows[key] = OpenWindow(value)
            else:
                window.value = value
            seen[key] = window
        found: list[NewVersion[V]] = []
        for end_us in sorted(end_us for end_us in self._by_end if end_us <= early_us):
            is_final = end_us <= watermark_us
            whole = is_final or end_us > self._early_us
            for window in (self._by_end if whole else touched).get(end_us, {}).values():
                window.version += 1
                found.append(NewVersion(window.version, is_final, window.value))
            if is_final:
                del self._by_end[end_us]
        self._early_us = early_us
        return found
