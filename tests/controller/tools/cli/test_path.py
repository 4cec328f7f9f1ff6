"""A person's path, as the tutorial shows it: each of its commands is run, and prints what stands there."""

from __future__ import annotations

import pytest

from tidemark.controller.tools.client import Client

from support.tutorial import SERVE, TUTORIAL, run, running, steps

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_the_commands_of_the_tutorial_print_what_stands_there_and_end_where_they_should(
    database_url: str,
) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    script = steps(text)
    assert len(script) > 10
    with running(database_url) as (job, url):
        for line, printed in script:
            body = run(line, job, url)
            if line != SERVE:
                # Lines may end elsewhere in the document.
                assert body.split() == printed.split(), f"run `make docs`: {line}\n{body}"
        with Client(url) as tidemark:
            (first,) = (body for body in tidemark.rollouts("shop", "clicks") if body.id == 1)
            events = [event for event in tidemark.events("shop", "clicks") if event.evidence.rollout == 1]
            acknowledged = [body.generation for body in tidemark.acknowledgements("shop", "clicks")]
    assert first.state == "RolledBack"
    path = [
        "Recommended",
        "AwaitingApproval",
        "Approved",
        "Published",
        "Acknowledged",
        "Effective",
        "Verified",
    ]
    assert [event.kind for event in reversed(events)] == [
        f"Rollout{state}" for state in [*path, "RolledBack"]
    ]
    # Started with its own bound, then with the one approved, then with its own again.
    assert [generation is None for generation in acknowledged] == [True, False, True]
