"""Numbers and dates as the report writes them."""

from datetime import UTC, datetime

import pytest

from vcsbench import words

MINUS = "\N{MINUS SIGN}"
DAY, SEVEN = "21 November 2026", datetime(2026, 11, 21, 7, 0, tzinfo=UTC)


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
def test_decimals_of_a_column(values, unit, expected):
    assert words.decimals(values, unit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.size(1536), "1.50 KiB"),
        (words.size(5 << 42), "20.0 TiB"),
        (words.duration(7500), "2 h 5 min"),
        (words.period(SEVEN, SEVEN.replace(hour=8)), f"{DAY}, 07:00\N{EN DASH}08:00 UTC"),
        (
            words.period(SEVEN, SEVEN.replace(month=12)),
            f"{DAY}, 07:00 UTC to 21 December 2026, 07:00 UTC",
        ),
        (words.moment("2026-11-21T07:00:00.0"), SEVEN),
        (words.moment("2026-11-21T08:00:00+01:00"), SEVEN),
        (words.moment("yesterday"), None),
    ],
)
def test_words_of_a_value(text, expected):
    assert text == expected
