"""What twins differ by beyond their rounds: a guess that grows with the evidence; what is plain, as it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vcsbench.compare.beyond import PLAIN, USUAL, beyond

ROUNDS = 0.03  # what rounds make two means differ by
TWINS = 12


def sd(excess: float, twins: int = TWINS, by_rounds: float = ROUNDS) -> float:
    """What twins are taken to differ by where their squares are so many times what rounds make of them."""
    squares = np.full(twins, excess * by_rounds**2)
    found = beyond(squares, np.full(twins, by_rounds**2), np.full(twins, 40.0))
    return math.sqrt(found.variance)


def found_in(studies, by_rounds, differ, seed):
    """The variances that twins which differ by so much are taken for, in so many studies."""
    variances, degrees = np.full(TWINS, by_rounds**2), np.full(TWINS, 40.0)
    drawn = np.random.default_rng(seed).normal(0, math.hypot(by_rounds, differ), (studies, TWINS))
    return np.array([beyond(one, variances, degrees).variance for one in drawn**2])


def moments(excess: float, by_rounds: float = ROUNDS) -> float:
    return by_rounds * math.sqrt(excess - 1)


@pytest.mark.parametrize("excess", [0.0, 0.5, 1.0])
def test_twins_that_differ_by_no_more_than_their_rounds_make_of_it_have_none(excess):
    assert sd(excess) == 0


def test_what_chance_may_show_counts_for_less_than_it_seems_and_more_the_more_it_shows():
    found = [sd(excess) for excess in (1.01, 1.2, 1.5, 1.8)]
    assert 0 < found[0] < USUAL and found == sorted(found)
    assert found[-1] < 0.75 * moments(1.8)


def test_what_is_plain_is_taken_as_it_is_seen():
    assert sd(4.0) == pytest.approx(moments(4.0))
    assert sd(10.0, twins=1, by_rounds=0.001) == pytest.approx(moments(10.0, 0.001))


def test_the_guess_meets_what_is_plain_where_it_becomes_so():
    excess = np.linspace(1.5, 3, 301)
    found = np.array([sd(x) for x in excess])
    assert np.diff(found).max() < 0.02 * found.max()


def test_noisy_twins_say_little_and_precise_ones_much():
    assert sd(1.5, by_rounds=0.2) < 1.5 * USUAL
    assert sd(1.5, by_rounds=0.01) == pytest.approx(moments(1.5, 0.01), rel=0.25)


def test_a_guess_is_known_better_than_what_so_few_twins_tell_by_themselves():
    squares, by_rounds = np.full(TWINS, 1.6 * ROUNDS**2), np.full(TWINS, ROUNDS**2)
    found = beyond(squares, by_rounds, np.full(TWINS, 40.0))
    assert 1 < found.degrees < TWINS


def test_unlucky_twins_of_one_run_do_not_take_its_answers():
    """Of runs in which twins do not differ, few are taken to have twins that differ by much."""
    found = np.sqrt(found_in(2000, ROUNDS, 0.0, seed=1))
    assert np.mean(found > 0.02) < 2 * PLAIN
    assert 0.4 < np.mean(found == 0) < 0.65


def test_what_twins_differ_by_is_found_on_the_average_where_it_shows():
    much, little = (math.sqrt(found_in(500, 0.02, by, seed=2).mean()) for by in (0.03, 0.015))
    assert much == pytest.approx(0.03, rel=0.15)
    assert 0.01 < little < 0.015


def test_twins_without_any_scatter_and_with_endless_degrees_are_no_fault():
    none, endless = np.zeros(3), np.full(3, math.inf)
    assert beyond(none, none, endless).variance == 0
    assert beyond(np.full(3, 1e-4), none, endless).variance == pytest.approx(1e-4)
    assert beyond(np.full(3, 1.2e-4), np.full(3, 1e-4), endless).variance > 0
