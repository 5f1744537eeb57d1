"""Labels of axes, values, cells and groups of cells, and the texts of factors and times."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from vcsbench.advice.case_groups import CaseGroup
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, CLIENTS_AXIS, COMMAND_AXIS, FORMAT_AXIS
from vcsbench.config.study import WITHOUT_SERVER
from vcsbench.plan.grid import AxisValues
from vcsbench.words import count_of, significant

# The axes that case_label() prints in front of the brackets.
HEAD_AXES = (COMMAND_AXIS, CACHE_AXIS, ACCESS_AXIS)
# The state of the caches whose label names the system's cache only.
OS_CACHE_WARM = "hot-os"
# The values of an axis that have a range of their own.
MAX_PARTS = 3
# The values of a case, and a factor: ({"command": "log", "format": "f6"}, 1.4).
CaseFactor = tuple[AxisValues, float]
# A difference that is called, and smaller than the smallest effect worth noting.
SLIGHT = "sure but small"
# Smaller factors are printed as percentages. This one is below 1.1, because 1.0997 is printed as 1.10x.
_PERCENT_BELOW = 1.0995
# Larger factors are printed as this one. The interval of two rounds can end beyond it.
_LARGEST = 9999.0
# The significant digits of a time that stands next to its factor, at most.
MOST_DIGITS = 4


def axis_label(axis: str) -> str:
    """Return the label of an axis: `file system` for `filesystem`, `sqlite locking` for `sqlite_locking`."""
    return load_vocabulary().axis(axis).label or axis.replace("_", " ")


def value_label(axis: str, value: str) -> str:
    """Return the label of a value of an axis: `not packed`, `f6 upgraded to f8`, `4 clients`.

    It is the label in words.yaml, one by the rules below, or the value itself, such as the name of a build.
    """
    label = load_vocabulary().value(axis, value).label
    if label:
        return label
    if axis == FORMAT_AXIS and "-to-" in value:
        return value.replace("-to-", " upgraded to ")
    # `on` alone does not show which axis is on.
    if value in ("on", "off"):
        return f"{axis_label(axis)} {value}"
    if axis == CLIENTS_AXIS and value.isdigit():
        return count_of(int(value), "client")
    return value


def case_label(where: AxisValues, shown: Sequence[str], names_cache: bool = True) -> str:
    """Return the label of a case with its values of the axes `shown`, and always with its command.

    The state of the caches is part of the label, too, unless `names_cache` is False, for texts that name this
    state elsewhere. Examples: `export over svn, OS cache warm (f7, packed)`, `cold log`, and `all cases`
    without any value.
    """
    cache = where.get(CACHE_AXIS, "") if names_cache else ""
    # None if the case leaves the access open, and "" for a command to which it does not apply, such as dump.
    access = where.get(ACCESS_AXIS)
    command_words = []
    if cache_state(cache).is_cold:
        command_words.append("cold")
    if where.get(COMMAND_AXIS):
        command_words.append(value_label(COMMAND_AXIS, where[COMMAND_AXIS]))
    if access and ACCESS_AXIS in shown:
        command_words.append(f"over {access}")
    head_parts = [" ".join(command_words), _warmth(cache, access)]
    head = ", ".join(part for part in head_parts if part)
    in_brackets = ", ".join(label_details(where, shown))
    if head and in_brackets:
        return f"{head} ({in_brackets})"
    return head or in_brackets or "all cases"


def label_details(where: AxisValues, shown: Sequence[str]) -> list[str]:
    """Return the labels that case_label() prints in brackets, by the axes `shown`: `["f7", "packed"]`."""
    details = []
    for axis in shown:
        value = where.get(axis, "")
        # The head has the command, the cache and the access already.
        if not value or axis in HEAD_AXES:
            continue
        # Readers expect a silent value, such as no password, so no label has it.
        value_words = load_vocabulary().value(axis, value)
        if not value_words.silent:
            details.append(value_words.short or value_label(axis, value))
    return details


def cells_label(where: Mapping[str, Sequence[str]]) -> str:
    """Return the labels of the values that select cells: `log or null-log, packed, cold, http or svn`.

    `where` is {"command": ["log", "null-log"], "packing": ["pack"], ...}. Return `any` without a value.
    """
    conditions = []
    for axis, values in where.items():
        conditions.append(" or ".join(value_label(axis, value) for value in values))
    return ", ".join(conditions) or "any"


def _warmth(cache: str, access: str | None) -> str:
    """Return the label of a warm state of the caches: `OS cache warm`; "" for another state.

    `access` is None if it is open, and "" for a command to which it does not apply.
    """
    state = cache_state(cache)
    if state.is_cold:
        return ""
    # The label of this state names the cache of the server. Without a server, only the system has a cache.
    if state.keeps_server and access in WITHOUT_SERVER:
        return value_label(CACHE_AXIS, OS_CACHE_WARM)
    return value_label(CACHE_AXIS, cache)


def group_label(group: CaseGroup) -> str:
    """Return the name of a group of cases: `cold log`, `cold`, `packed`, `cold export over svn`.

    The value of any other axis than the access follows in brackets: `cold log (packed)`.

    Return "" for a group that no field describes.
    """
    group_words = []
    if group.temperature:
        group_words.append(str(group.temperature))
    if group.command:
        group_words.append(value_label(COMMAND_AXIS, group.command))
    if group.axis == ACCESS_AXIS:
        group_words.append(f"over {group.value}")
    elif group.axis and group_words:
        group_words.append(f"({value_label(group.axis, group.value)})")
    elif group.axis:
        group_words.append(value_label(group.axis, group.value))
    return " ".join(group_words)


def factor(ratio: float) -> str:
    """Return a factor of at least 1 as `5.7 %`, `1.12x`, `2.9x`, `12x`, at most `9999x`."""
    if ratio < _PERCENT_BELOW:
        return f"{100 * (ratio - 1):.1f} %"
    # times() has two decimals below 2. From 1.2 on, one is enough to compare two answers.
    if 1.195 <= ratio < 1.995:
        return f"{ratio:.1f}x"
    return times(min(ratio, _LARGEST))


def times(ratio: float) -> str:
    """Return any ratio as `0.074x`, `0.74x`, `1.12x`, `1.64x`, `2.1x`, `11x`."""
    # A ratio at a limit is printed as 0.10, 2.0 or 10. Larger ratios need fewer decimals than smaller ones.
    if ratio < 0.0995:
        return f"{significant(ratio, 2)}x"
    if ratio < 1.995:
        return f"{ratio:.2f}x"
    return f"{ratio:.1f}x" if ratio < 9.95 else f"{ratio:.0f}x"


def times_between(low: float, high: float) -> str:
    """Return `1.2x to 1.9x`, with a further digit if both ends are equal without it."""
    first, last = times(low), times(high)
    if first == last and low != high:
        first, last = f"{significant(low)}x", f"{significant(high)}x"
    return first if first == last else f"{first} to {last}"


def range_of_factors(ratios: Sequence[float]) -> str:
    """Return the range of factors of at least 1, in one unit: `5.0 to 8.0 %`, `1.08x to 1.6x`.

    `ratios` are in any order, at least one. If both ends have the same text, it stands alone: `2.4x`.
    """
    smallest, largest = min(ratios), max(ratios)
    # factor() would print the smallest as a percentage, and the largest as a multiple.
    has_two_units = smallest < _PERCENT_BELOW <= largest
    low = times(smallest) if has_two_units else factor(smallest)
    high = factor(largest)
    if low == high:
        return high
    return f"{low.removesuffix(' %')} to {high}"


def explained_ranges(members: Sequence[CaseFactor], margin: float) -> list[str]:
    """Return the range of the factors of cases, or a range for each value of the axis that explains it.

    Example: the factors 1.4 to 3.5 give `["1.4x to 3.5x"]`. But if all cases with f6 have 1.4, and all cases
    with f7 have 3.2 to 3.5, the format explains the range: `["f6 1.4x", "f7 3.2x to 3.5x"]`.

    There is at least one member, and each factor is at least 1. `margin` is the smallest factor that counts.
    """
    # All cases have the same axes, with "" for one that does not apply. Command and cache are left out,
    # because readers see them in front of the range.
    first_where, _ = members[0]
    axes = [axis for axis in first_where if axis not in (COMMAND_AXIS, CACHE_AXIS)]
    # The first axis that explains the range is used.
    for number, axis in enumerate(axes):
        factors_by_value: defaultdict[str, list[float]] = defaultdict(list)
        for where, ratio in members:
            factors_by_value[where.get(axis, "")].append(ratio)
        # More than MAX_PARTS (3) ranges would be too long for a text.
        has_few_values = 1 < len(factors_by_value) <= MAX_PARTS
        if has_few_values and _are_apart(factors_by_value, margin):
            # If all cases over http use the network `loopback`, and all over https `line`, either axis may be
            # the cause. So both are named: `http and loopback 14x`. The second axis is a later one, because
            # an earlier axis with the same groups of cases would have explained the range already.
            later_axes = axes[number + 1 :]
            names = _name_values(axis, later_axes, members)
            return [
                f"{names[value]} {range_of_factors(factors)}"
                for value, factors in factors_by_value.items()
            ]
    return [range_of_factors([ratio for _, ratio in members])]


def _name_values(
    axis: str, other_axes: Sequence[str], members: Sequence[CaseFactor]
) -> dict[str, str]:
    """Return the name of each value of an axis in the cases: `{"http": "http", "https": "https"}`.

    If one of the other axes differs together with this axis, the names have its values, too: `{"http": "http
    and loopback", "https": "https and line"}`. A value that does not apply ("") has no label, so its axis is
    not named.
    """
    wheres = [where for where, _ in members]
    names = {where.get(axis, ""): value_label(axis, where.get(axis, "")) for where in wheres}
    for other in other_axes:
        pairs = {(where.get(axis, ""), where.get(other, "")) for where in wheres}
        other_values = {other_value for _, other_value in pairs}
        # If there are as many pairs as values of each axis, each value is in one pair only. A third pair,
        # such as ("http", "line"), would show that the axes are independent.
        differs_together = len(pairs) == len(names) == len(other_values)
        if differs_together and "" not in other_values:
            return {
                value: f"{names[value]} and {value_label(other, other_value)}"
                for value, other_value in pairs
            }
    return names


def _are_apart(ranges: Mapping[str, Sequence[float]], margin: float) -> bool:
    """Return True if the ranges of factors are apart by two margins or more, because both are uncertain.

    Example: `{"f6": [1.4, 1.6], "f7": [3.2, 3.5]}` are apart by 3.2 / 1.6 = 2, which is more than 1.1 x 1.1.
    """
    in_order = sorted(ranges.values(), key=min)
    return all(min(larger) >= margin**2 * max(smaller) for smaller, larger in pairwise(in_order))


def at_least_1(ratio: float) -> float:
    """Return the factor of a ratio, whichever side is faster: 2 for 0.5."""
    return max(ratio, 1 / ratio)


def is_slight(ratios: Sequence[float], min_effect_pct: float) -> bool:
    """Return True if all ratios of called differences are below the smallest effect."""
    return all(at_least_1(ratio) < 1 + min_effect_pct / 100 for ratio in ratios)


def slight_note(ratios: Sequence[float], min_effect_pct: float) -> str:
    """Return ` (sure but small)` if all ratios of called differences are below the smallest effect."""
    return f" ({SLIGHT})" if is_slight(ratios, min_effect_pct) else ""


def change(ratio: float, words: tuple[str, str] = ("faster", "slower")) -> str:
    """Return a ratio baseline / candidate as the candidate's change: `5.7 % slower`, `2.4x faster`."""
    above, below = words
    # The count of a baseline can be 0.
    if ratio <= 0:
        return f"infinitely {below}"
    return f"{factor(at_least_1(ratio))} {below if ratio < 1 else above}"


def change_between(low: float, high: float, words: tuple[str, str] = ("faster", "slower")) -> str:
    """Return an interval of ratios: `3.0 to 8.3 % slower`, `2.0 % slower to 4.0 % faster`."""
    above, below = words
    if high < 1:
        return f"{range_of_factors([at_least_1(low), at_least_1(high)])} {below}"
    if low >= 1:
        return f"{range_of_factors([low, high])} {above}"
    return f"{change(low, words)} to {change(high, words)}"


def seconds(value: float) -> str:
    """Return a time with about three significant digits: `0.093 s`, `1.57 s`, `12.3 s`."""
    return f"{value:.{_decimals_of_time(value)}f} s"


def seconds_of_both(values: Sequence[float], has_factor: bool = True) -> list[str]:
    """Return two times with so many digits that their quotient is the factor that is printed next to them.

    Example: 1.642 s and 0.4491 s are 3.7x apart, but `1.64 s` and `0.45 s` have the quotient 3.6. So both get
    a further digit: `1.642 s` and `0.449 s`. No time gets more than MOST_DIGITS (4) significant digits this
    way, even if the quotient still differs. Without `has_factor`, no factor is printed next to the times, and
    they get the usual digits.
    """
    shorter, longer = min(values), max(values)
    decimals = [_decimals_of_time(value) for value in values]
    # An unknown time is 0, and has no quotient.
    if has_factor and shorter > 0:
        most_decimals = [_most_decimals_of_time(value) for value in values]
        printed_factor = factor(longer / shorter)
        while decimals != most_decimals and _quotient_text(values, decimals) != printed_factor:
            decimals = [
                min(places + 1, most) for places, most in zip(decimals, most_decimals, strict=True)
            ]
    return [f"{value:.{places}f} s" for value, places in zip(values, decimals, strict=True)]


def _decimals_of_time(value: float) -> int:
    """Return the decimals of a time with about three significant digits."""
    if value < 0.0995:
        return 3
    return 2 if value < 9.95 else 1


def _most_decimals_of_time(value: float) -> int:
    """Return the decimals of a time with MOST_DIGITS (4) significant digits: 3 for 1.642 s.

    A long time keeps the one decimal of _decimals_of_time(), although 1234.5 s has five digits.
    """
    # 0 for 1.642 s, and -1 for 0.4491 s.
    power_of_ten = math.floor(math.log10(value))
    return max(_decimals_of_time(value), MOST_DIGITS - 1 - power_of_ten)


def _quotient_text(values: Sequence[float], decimals: Sequence[int]) -> str:
    """Return the factor between two times that are rounded to their decimals, "" if one of them becomes 0."""
    rounded = [round(value, places) for value, places in zip(values, decimals, strict=True)]
    return factor(max(rounded) / min(rounded)) if min(rounded) else ""
