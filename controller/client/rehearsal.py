"""What the joins of a job allow while several of its specifications change, one after the other.

A dry run sees what is in force now, and not what the changes before it will have made of it: an SLO may be set only
then, and a stream may be in a join only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidemark.controller.client.errors import RequestRejectedError
from tidemark.controller.errors import JoinRefusedError

if TYPE_CHECKING:
    from tidemark.controller.client.applying import SpecChange
    from tidemark.controller.specs.documents import Kind


class Rehearsal:
    """The specifications of one job, as the changes so far will leave them.

    Args:
        found: kind, name and fields of those in force.
    """

    def __init__(self, found: Iterable[tuple[Kind, str, Mapping[str, Any]]]) -> None:
        self._fields = {(kind, name): fields for kind, name, fields in found}
        self._joined_at_first = self._joined()

    def allows(self, change: SpecChange, refusal: RequestRejectedError) -> bool:
        """Return whether the controller refused a dry run only because of what earlier changes will have changed."""
        kind = refusal.kind.rpartition(":")[2]
        if kind == "live-refused":
            return change.name in self._joined_at_first and change.name not in self._joined()
        return kind in {"join-refused", "stream-joined"} or (
            # The SLO of a stream that is not known yet makes it known.
            kind == "stream-not-found" and change.kind == "Join"
        )

    def make(self, change: SpecChange) -> None:
        """Make a change.

        Raises:
            RequestRejectedError: when the joins do not allow it by then.
        """
        problem = self._problem(change)
        if problem is not None:
            error = JoinRefusedError(problem)
            raise RequestRejectedError(error.status, error.type, f"{change.where or change.name}: {problem}")
        if change.after is None:
            self._fields.pop((change.kind, change.name), None)
        else:
            self._fields[change.kind, change.name] = change.after

    def _problem(self, change: SpecChange) -> str | None:
        joined = self._joined()
        join = joined.get(change.name)
        if change.kind == "Policy" and (change.after or {}).get("mode") == "Live" and join is not None:
            return f"stream {change.name!r} is a side of join {join!r}, which mode Live does not steer"
        if change.kind == "SLO" and change.after is None and join is not None:
            return f"stream {change.name!r} is a side of join {join!r} and must keep its SLO"
        if change.kind == "Join" and change.after is not None:
            for stream in change.after["streams"]:
                if ("SLO", stream) not in self._fields:
                    return f"stream {stream!r} of join {change.name!r} has no SLO"
                if self._fields.get(("Policy", stream), {}).get("mode") == "Live":
                    return f"stream {stream!r} of join {change.name!r} is in mode Live, which a join does not steer"
                if joined.get(stream, change.name) != change.name:
                    return f"stream {stream!r} of join {change.name!r} is a side of join {joined[stream]!r} already"
        return None

    def _joined(self) -> dict[str, str]:
        """Return by stream the join that it is a side of."""
        return {
            stream: name
            for (kind, name), fields in self._fields.items()
            if kind == "Join"
            for stream in fields["streams"]
        }
