"""The states of a rollout and the legal ways between them: one table for the code, the tests and the documentation."""

from __future__ import annotations

import re
from typing import Literal

State = Literal[
    "Recommended",
    "AwaitingApproval",
    "Published",
    "Acknowledged",
    "Effective",
    "Verified",
    "RolledBack",
    "Superseded",
    "Expired",
    "Discarded",
]

Act = Literal["approve", "discard", "rollback", "lift"]
"""What a person may do with a rollout."""

TRANSITIONS: dict[State, frozenset[State]] = {
    "Recommended": frozenset({"AwaitingApproval", "Published", "Superseded", "Discarded"}),
    "AwaitingApproval": frozenset({"Recommended", "Published", "Superseded", "Expired", "Discarded"}),
    "Published": frozenset({"Acknowledged", "RolledBack", "Superseded", "Expired"}),
    "Acknowledged": frozenset({"Effective", "RolledBack", "Superseded", "Expired"}),
    "Effective": frozenset({"Verified", "RolledBack", "Superseded", "Expired"}),
    "Verified": frozenset({"RolledBack"}),
    "RolledBack": frozenset(),
    "Superseded": frozenset(),
    "Expired": frozenset(),
    "Discarded": frozenset(),
}
"""By state, the states that can follow. A verified rollout is rolled back by a person, or when it misses its target."""

CANDIDATE: frozenset[State] = frozenset({"Recommended", "AwaitingApproval"})
"""States in which it is not published."""

UNDER_WAY: frozenset[State] = frozenset({"Published", "Acknowledged", "Effective"})
"""States in which it is published and not verified."""

OPEN = CANDIDATE | UNDER_WAY
"""States that are not final. A stream has at most one open rollout."""

ENDED: frozenset[State] = frozenset(state for state, follows in TRANSITIONS.items() if not follows)
"""States that nothing leaves."""


def state_text(state: State) -> str:
    """Return a state in words, such as ``rolled back``."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", state).lower()


def rollout_text(number: int, state: State, reason: str) -> str:
    """Return the number of a rollout, its state and the reason, without naming the state twice."""
    words = state_text(state)
    return f"{number}: {reason}" if reason.startswith(words) else f"{number} is {words}: {reason}"
