"""Numbers, dates and names as the report writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeGuard

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
EN_DASH = "\N{EN DASH}"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a field of a table holds a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def decimals(values: Iterable[object], unit: str = "") -> int:
    """How many decimals give the smallest of a column's values three digits that count, at most 3
    and no more than the values have themselves; none for per cent.

    One number of decimals for a whole column keeps its points below one another.
    """
    numbers = [value for value in values if is_number(value)]
    sizes = [abs(value) for value in numbers if value]
    if not sizes or unit == "%":
        return 0
    own = max(len(f"{value:.3f}".rstrip("0").partition(".")[2]) for value in numbers)
    return max(0, min(3, own, 2 - math.floor(math.log10(min(sizes)))))


def fixed(value: float, places: int) -> str:
    """A number with that many decimals, a real minus and no negative zero."""
    text = f"{value:.{places}f}"
    negative = text.startswith("-") and text.strip("-0.") != ""
    return (MINUS if negative else "") + text.lstrip("-")


def significant(value: float, digits: int = 3) -> str:
    """A number to so many significant digits, without an exponent: 0.163, 2.31, 422."""
    rounded = abs(float(f"{value:.{digits}g}"))  # 9.999 is written as 10.0
    if not rounded:
        return "0"
    return fixed(value, max(0, digits - 1 - math.floor(math.log10(rounded))))


def plain(key: object) -> str:
    """What tells rows apart as text: a run's number without decimals."""
    return f"{key:g}" if is_number(key) else str(key)


def with_unit(value: float, unit: str) -> str:
    """A number with its unit: `0.1634 s`, `84.02%`."""
    return significant(value, 4) + (unit if unit == "%" else f" {unit}".rstrip())


def percentage(value: float, places: int = 0) -> str:
    """A deviation in percent with its sign, the percent sign left to the caption."""
    text = fixed(value, places)
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def size(count: float) -> str:
    """A number of bytes in the binary unit that suits it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{significant(count)} {unit}"
        count /= 1024
    return f"{significant(count)} TiB"


def grouped(count: float) -> str:
    """A whole number with its thousands set apart."""
    return f"{count:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def count_of(number: int, noun: str, plural: str = "") -> str:
    """`1 cell`, `72 cells`."""
    return f"{grouped(number)} {noun if number == 1 else plural or noun + 's'}"


def count_between(least: int, most: int, noun: str) -> str:
    """`5 rounds`, `5 to 15 rounds`."""
    return count_of(most, noun) if least == most else f"{grouped(least)} to {count_of(most, noun)}"


def moment(stamp: str) -> datetime | None:
    """The time of a stamp like 2026-11-21T07:00:00Z in UTC, or None where it is none."""
    try:
        time = datetime.fromisoformat(stamp)
    except (TypeError, ValueError):
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def day(time: datetime) -> str:
    """`21 November 2026`."""
    return f"{time.day} {time:%B %Y}"


def period(first: datetime, last: datetime) -> str:
    """From the first to the last moment, the date said once if it is the same day."""
    if first.date() == last.date():
        return f"{day(first)}, {first:%H:%M}{EN_DASH}{last:%H:%M} UTC"
    return f"{day(first)}, {first:%H:%M} UTC to {day(last)}, {last:%H:%M} UTC"


def duration(seconds: float) -> str:
    """`14 min`, `2 h 5 min`, `48 s`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def enumeration(words: Sequence[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; or with another word than `and`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {joint} {words[-1]}"


def slug(text: str) -> str:
    """An anchor's name: letters, digits and hyphens."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[0].upper() + text[1:]
