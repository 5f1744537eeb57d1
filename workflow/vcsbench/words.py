"""Format numbers, dates and lists for people."""

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeGuard

# The characters of a line on a terminal.
WIDTH = 110
MINUS_SIGN = "\N{MINUS SIGN}"
TIMES_SIGN = "\N{MULTIPLICATION SIGN}"
EN_DASH = "\N{EN DASH}"


def wrapped(line: str) -> str:
    """Return a line broken into lines of at most WIDTH characters, with the indent of the line.

    All lines but the first are indented by two more. A longer word, such as a path, stays whole, so that it
    can be copied.
    """
    if len(line) <= WIDTH:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.strip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite number. None, nan and texts are none."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def version_numbers(version: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version: (2, 39) for `2.39.5`. None for another text."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def is_newer(version: str, other: str) -> bool:
    """Return True if a version is newer by its first two numbers: 1.14.2 than 1.9. False if unknown."""
    numbers, other_numbers = version_numbers(version), version_numbers(other)
    return numbers is not None and other_numbers is not None and numbers > other_numbers


def is_at_least(version: str, other: str) -> bool:
    """Return True if a version is not older by its first two numbers: 2.44.1 than 2.44. False if unknown."""
    numbers, other_numbers = version_numbers(version), version_numbers(other)
    return numbers is not None and other_numbers is not None and numbers >= other_numbers


def decimals(values: Iterable[object], unit: str = "") -> int:
    """Return how many decimals the numbers of a column get: the smallest of three limits, but at least 0.

    - 3 decimals.
    - The decimals with which the smallest number has three significant digits: 2 for 4.22, and 0 for 422.
    - The most decimals of one of the numbers, without zeros at its end: 1 for 13.4 and 5.0.

    Percentages get 0.
    """
    numbers = [value for value in values if is_number(value)]
    # 0 has no significant digit.
    sizes = [abs(number) for number in numbers if number]
    if not sizes or unit == "%":
        return 0
    used_decimals = 0
    for number in numbers:
        _, _, digits = f"{number:.3f}".rstrip("0").partition(".")
        used_decimals = max(used_decimals, len(digits))
    # The exponent of ten of the smallest number: 2 for 422, 0 for 4.22, -1 for 0.42.
    exponent = math.floor(math.log10(min(sizes)))
    significant_decimals = 2 - exponent
    return max(0, min(3, used_decimals, significant_decimals))


def fixed(value: float, places: int) -> str:
    """Format a number with `places` decimals and a minus sign of print. -0.04 with one decimal is `0.0`."""
    text = f"{value:.{places}f}"
    digits = text.removeprefix("-")
    is_zero = not digits.strip("0.")
    if text.startswith("-") and not is_zero:
        return MINUS_SIGN + digits
    return digits


def significant(value: float, digits: int = 3) -> str:
    """Format a number with significant digits, without an exponent: 0.163, 2.31, 422."""
    # 9.996 is rounded before its digits are counted: it becomes 10.0, not 10.00.
    rounded = abs(float(f"{value:.{digits}g}"))
    if not rounded:
        return "0"
    # The digits before the point, less one: 1 for 10.0, and -1 for 0.163. The other digits are decimals.
    power = math.floor(math.log10(rounded))
    return fixed(value, max(0, digits - 1 - power))


def with_unit(value: float, unit: str) -> str:
    """Format a number with four digits and its unit: `1.234 s`, `12.34%`."""
    number = significant(value, 4)
    if unit == "%":
        return f"{number}%"
    return f"{number} {unit}".rstrip()


def percentage(value: float, places: int = 0) -> str:
    """Format a number with its sign, but without a unit: `+22`. 0 has no sign."""
    text = fixed(value, places)
    is_zero = not text.strip("0.")
    if is_zero or text.startswith(MINUS_SIGN):
        return text
    return f"+{text}"


def size(count: float) -> str:
    """Format a number of bytes in a binary unit: `12.5 MiB`."""
    if abs(count) < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if abs(count) < 1024:
            return f"{significant(count)} {unit}"
    return f"{significant(count / 1024)} TiB"


def group_digits(count: float) -> str:
    """Format a whole number with commas between groups of three digits: `6,000`.

    Texts of studies, words.yaml and docs have this form, too. A narrow space cannot be typed, and some
    terminals lack it.
    """
    return f"{count:,.0f}"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return `1 cell` or `2 cells`. A `plural` is needed if it is not the noun with an s."""
    if number != 1:
        noun = plural or f"{noun}s"
    return f"{group_digits(number)} {noun}"


def is_or_are(number: int) -> str:
    """Return the verb for a number of things: `is` for 1, otherwise `are`."""
    return "is" if number == 1 else "are"


def count_between(least: int, most: int, noun: str) -> str:
    """Return `2 to 5 cells`, or `5 cells` if both numbers are equal."""
    if least == most:
        return count_of(most, noun)
    return f"{group_digits(least)} to {count_of(most, noun)}"


def moment(stamp: str) -> datetime | None:
    """Return the time of a stamp like 2026-11-21T07:00:00Z in UTC, or None if it is no stamp."""
    try:
        time = datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return None
    # All stamps of vcsbench are in UTC. Those of users may lack the zone.
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return time.astimezone(UTC)


def day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"


def period(first: datetime, last: datetime) -> str:
    """Return `21 November 2026, 07:00-09:30 UTC`, with both dates if they differ."""
    if first.date() == last.date():
        return f"{day(first)}, {first:%H:%M}{EN_DASH}{last:%H:%M} UTC"
    return f"{day(first)}, {first:%H:%M} UTC to {day(last)}, {last:%H:%M} UTC"


def duration(seconds: float) -> str:
    """Return `42 s`, `12 min` or `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def duration_from_1_s(seconds: float) -> str:
    """Return a duration, or `less than 1 s`."""
    return duration(seconds) if seconds >= 1 else "less than 1 s"


def enumeration(texts: Sequence[str]) -> str:
    """Join texts: `a`, `a and b`, `a, b and c`."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def slug(text: str) -> str:
    """Return a text as part of an anchor or a file's name: `svn log -v` becomes `svn-log-v`."""
    letters = "".join(c if c.isalnum() else " " for c in text.lower())
    return "-".join(letters.split())
