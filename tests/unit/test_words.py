"""Numbers and dates as the report writes them."""

import pytest

from vcsbench import words


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
