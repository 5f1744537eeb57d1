"""Numbers and dates as the report writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vcsbench import words

MINUS = "\N{MINUS SIGN}"


def test_numbers_of_rounds_that_differ_are_a_range() -> None:
    assert words.count_between(1, 1, "round") == "1 round"
    assert words.count_between(5, 15, "round") == "5 to 15 rounds"


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([422.1, 103.9], "s", 0),
        ([13.4, 5.0], "s", 1),  # as published: to one decimal
        ([0.6321, 3.0], "s", 3),
        ([0.001234], "s", 3),
        ([60.2, 3.1], "%", 0),
        ([5.0, 12.0], "s", 0),
        ([], "s", 0),
        ([0.0], "s", 0),
    ],
)
def test_decimals_of_a_column(values: list[float], unit: str, expected: int) -> None:
    assert words.decimals(values, unit) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(15.4, "+15"), (-9.6, f"{MINUS}10"), (0.3, "0"), (-0.3, "0"), (1192.3, "+1192")],
)
def test_percentage_has_a_sign_unless_it_is_zero(value: float, expected: str) -> None:
    assert words.percentage(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.16345, "0.163"),
        (2.314, "2.31"),
        (422.4, "422"),
        (12345.0, "12345"),
        (-0.5, f"{MINUS}0.500"),
        (0, "0"),
        (9.999, "10.0"),
    ],
)
def test_significant_digits(value: float, expected: str) -> None:
    assert words.significant(value) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1536, "1.50 KiB"),
        (187 << 20, "187 MiB"),
        (5 << 42, "20.0 TiB"),
    ],
)
def test_size(count: int, expected: str) -> None:
    assert words.size(count) == expected


def test_period_names_a_day_once() -> None:
    first = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
    assert (
        words.period(first, first.replace(hour=8)) == "21 November 2026, 07:00\N{EN DASH}08:00 UTC"
    )
    assert words.period(first, first.replace(day=22)) == (
        "21 November 2026, 07:00 UTC to 22 November 2026, 07:00 UTC"
    )


def test_moment_takes_stamps_with_and_without_zone() -> None:
    expected = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
    for stamp in ("2026-11-21T07:00:00Z", "2026-11-21T07:00:00.0", "2026-11-21T08:00:00+01:00"):
        assert words.moment(stamp) == expected
    assert words.moment("") is None
    assert words.moment("yesterday") is None


@pytest.mark.parametrize(
    ("seconds", "expected"), [(48, "48 s"), (840, "14 min"), (7500, "2 h 5 min")]
)
def test_duration(seconds: float, expected: str) -> None:
    assert words.duration(seconds) == expected


def test_enumeration() -> None:
    assert [words.enumeration(list(text)) for text in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
