"""Counts with their nouns."""

from __future__ import annotations

from tidemark.models.base.text import plural
from tidemark.models.rollout.states import rollout_text


def test_one_of_a_thing_is_not_several() -> None:
    assert [plural(number, "row") for number in (0, 1, 2, 1_452)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,452 rows",
    ]
    assert [plural(number, "batch", "batches") for number in (1, 3)] == ["1 batch", "3 batches"]


def test_where_a_rollout_is_is_not_said_twice() -> None:
    assert rollout_text(3, "Published", "published: nothing holds it") == "3: published: nothing holds it"
    assert rollout_text(3, "Published", "published") == "3: published"
    assert rollout_text(4, "AwaitingApproval", "who?") == "4 is awaiting approval: who?"
