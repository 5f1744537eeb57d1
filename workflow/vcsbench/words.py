"""Format numbers, dates and lists for people."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeGuard

# Of a line on a terminal.
WIDTH = 110
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
EN_DASH = "\N{EN DASH}"


def wrapped(line: str) -> str:
    """Return a line broken into lines of at most WIDTH characters, the further ones indented by two more.

    A longer word, such as a path, stays whole.
    """
    indent = line[: len(line) - len(line.lstrip())]
    if len(line) <= WIDTH:
        return line
    return textwrap.fill(
        line.strip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


def decimals(values: Iterable[object], unit: str = "") -> int:
    """Return the decimals of a column: three significant digits of its smallest value, at most 3 decimals.

    Percentages have none. No value gets more decimals than it has.
    """
    numbers = [value for value in values if is_number(value)]
    sizes = [abs(value) for value in numbers if value]
    if not sizes or unit == "%":
        return 0
    own = max(len(f"{value:.3f}".rstrip("0").partition(".")[2]) for value in numbers)
    return max(0, min(3, own, 2 - math.floor(math.log10(min(sizes)))))


def fixed(value: float, places: int) -> str:
    text = f"{value:.{places}f}"
    negative = text.startswith("-") and text.strip("-0.") != ""
    return (MINUS if negative else "") + text.lstrip("-")


def significant(value: float, digits: int = 3) -> str:
    """Format a number with significant digits, without an exponent: 0.163, 2.31, 422."""
    rounded = abs(float(f"{value:.{digits}g}"))
    if not rounded:
        return "0"
    return fixed(value, max(0, digits - 1 - math.floor(math.log10(rounded))))


def with_unit(value: float, unit: str) -> str:
    return significant(value, 4) + (unit if unit == "%" else f" {unit}".rstrip())


def percentage(value: float, places: int = 0) -> str:
    text = fixed(value, places)
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def size(count: float) -> str:
    """Format a number of bytes in a binary unit: `12.5 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{significant(count)} {unit}"
        count /= 1024
    return f"{significant(count)} TiB"


def group_digits(count: float) -> str:
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def count_of(number: int, noun: str, plural: str = "") -> str:
    return f"{group_digits(number)} {noun if number == 1 else plural or noun + 's'}"


def count_between(least: int, most: int, noun: str) -> str:
    return (
        count_of(most, noun)
        if least == most
        else f"{group_digits(least)} to {count_of(most, noun)}"
    )


def moment(stamp: str) -> datetime | None:
    """Return the time of a stamp like 2026-11-21T07:00:00Z in UTC, or None if it is no stamp."""
    try:
        time = datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"


def period(first: datetime, last: datetime) -> str:
    if first.date() == last.date():
        return f"{day(first)}, {first:%H:%M}{EN_DASH}{last:%H:%M} UTC"
    return f"{day(first)}, {first:%H:%M} UTC to {day(last)}, {last:%H:%M} UTC"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def enumeration(words: Sequence[str]) -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
