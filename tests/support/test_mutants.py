"""How `make mutants` makes a change, on the product's own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.models.rollout.gate import frozen_until_us
from tidemark.models.rollout.verification import needed_rows
from tidemark.models.specs.slo import FreezeWindow

from support.mutants import Code, in_fork
from support.mutation import Mutant, mutants_of

THURSDAY = (FreezeWindow(days=("Thu",)),)


def mutant_of(file: str, after: str) -> Mutant:
    (found,) = [each for each in mutants_of(file, Path(file).read_bytes()) if each.after == after]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "after"),
    [
        ("models/rollout/gate.py", "return until_us if False else None"),
        ("models/rollout/verification.py", "return (VERIFY_BATCHES * batch_rows)"),
    ],
)
def test_a_change_is_made_in_a_fork_and_nowhere_else(file: str, after: str) -> None:
    mutant, code = mutant_of(file, after), Code({file})

    def results() -> tuple[object, int]:
        return frozen_until_us(THURSDAY, 0), needed_rows(990_000, 10, 1.0)

    before = results()

    def changed() -> int:
        code.change(mutant)
        return int(results() != before)

    assert in_fork(changed, 60) == 1
    assert results() == before
