"""The most careful policy with the same knowledge: it waits as long as the longest delay that was ever seen.

What it loses came later than anything before it, so no delay that was seen foretold it. Nobody would want it, since one
row makes it wait for good; it tells the targets that a policy misses from those that no delay seen before would save.
"""

from __future__ import annotations

from tidemark.models.live.policy import NO_BASE_US, Decision, Observation

YOUNG = 2
"""Nothing closes before the stream is so many times as old as the key would be: each delay seen is a young one."""


class AsLongAsEver:
    """Closes a key when it is older than any before it when its rows came: by the clock, and by the stream's base.

    By the clock an upload is late; by the base (the newest event time read) a backlog is not. It waits for both.
    """

    native = False

    def __init__(self) -> None:
        self._began_us: int | None = None
        self._age_us = self._need_us = 0
        self._base_us = self._watermark_us = NO_BASE_US

    def observe(self, seen: Observation) -> None:
        """Take the longest delays of a batch."""
        if not len(seen.key_us):
            return
        if self._began_us is None:
            self._began_us = seen.now_us
        self._age_us = max(self._age_us, int((seen.now_us - seen.key_us).max()))
        self._need_us = max(self._need_us, int(seen.need_us.max()))
        self._base_us = max(self._base_us, min(int(seen.base_us.max()), seen.now_us))

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the watermark below which nothing has ever come; it never moves back."""
        if self._began_us is None or now_us - self._began_us < YOUNG * self._age_us:
            return Decision()
        # By the clock of the newest batch: what comes until the decision is in force is not known.
        by_clock_us = now_us - self._age_us - 1
        self._watermark_us = max(self._watermark_us, min(by_clock_us, self._base_us - self._need_us))
        return Decision(watermark_us=self._watermark_us)
