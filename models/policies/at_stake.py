"""Rows at stake: missing from keys that a rule has closed, and lost if they come.

A silent partition may bring its rows later, or it may have stopped; what is missing may not even exist. So what was
missing counts for the share that came in the end so far, over all rules.
"""

from __future__ import annotations

import numpy as np

from tidemark.models.live_defaults import AT_STAKE_PRIOR_KEYS
from tidemark.models.policies.ages import Float64s
from tidemark.models.policies.learned import Arrays, checked


class AtStake:
    """Follows what becomes of the rows at stake, for ``rules`` rules."""

    def __init__(self, rules: int) -> None:
        self._rows = np.zeros(rules)
        self._came = 0.0
        self._gone = 0.0

    def add(self, rows: Float64s, lost: Float64s) -> None:
        """Add what is at stake now, and what was lost since the last call, shape (rules,) each.

        Rows that are no longer at stake have come as far as rows were lost; the rest no longer counts as missing.
        """
        settled = np.maximum(self._rows - rows, 0)
        came = np.minimum(settled, lost)
        self._came += float(came.mean())
        self._gone += float((settled - came).mean())
        self._rows = rows

    def share_to_come(self, mass_a_key: float) -> float:
        """Return the share of the rows at stake that is expected to come: one half before anything is known.

        Args:
            mass_a_key: mean mass of a key, above 0.
        """
        prior = AT_STAKE_PRIOR_KEYS * mass_a_key
        return (self._came + prior / 2) / (self._came + self._gone + prior)

    def learned(self) -> Arrays:
        """Return how many came, and how many did not."""
        return {"came": np.array(self._came), "gone": np.array(self._gone)}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned.

        Raises:
            ValueError: when it is not of this form.
        """
        checked(learned, {"came": (), "gone": ()})
        self._came, self._gone = float(learned["came"]), float(learned["gone"])
