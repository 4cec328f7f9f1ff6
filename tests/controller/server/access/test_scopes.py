"""Patterns on job names."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.principal import matches, pattern_problem

NAMES = st.text("ab-*?[]", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "job", "reached"),
    [
        ("*", "anything", True),
        ("shop", "shop", True),
        ("shop", "shop-1", False),
        ("shop-*", "shop-1", True),
        ("shop-*", "shop-", True),
        ("shop-*", "shop", False),
        ("shop-*", "a-shop-1", False),
        ("*-eu", "shop-eu", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("Shop", "shop", False),
        ("shop?", "shop1", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_stands_for_any_characters_and_all_others_for_themselves(
    pattern: str, job: str, reached: bool
) -> None:
    assert matches(pattern, job) is reached


@given(pattern=NAMES, job=NAMES)
def test_matching_is_what_a_regular_expression_of_the_pattern_would_say(pattern: str, job: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), job, re.DOTALL) is not None
    assert matches(pattern, job) is expected


@given(pattern=st.text("ab-*", max_size=12), job=st.text("ab-", max_size=12))
def test_matching_agrees_with_shell_patterns_where_both_know_the_star_alone(pattern: str, job: str) -> None:
    assert matches(pattern, job) is fnmatch.fnmatchcase(job, pattern)


def test_a_hostile_pattern_takes_no_longer_than_another() -> None:
    assert not matches("*a" * 100, "a" * 99 + "b")


@pytest.mark.parametrize("pattern", ["", "a" * 201, "a/b", " a", "a\n"])
def test_a_pattern_that_no_job_can_match_is_refused_with_a_sentence(pattern: str) -> None:
    assert pattern_problem(pattern)


@pytest.mark.parametrize("pattern", ["*", "shop-*", "Bestellungen ä"])
def test_a_pattern_of_a_possible_name_is_fine(pattern: str) -> None:
    assert pattern_problem(pattern) is None
