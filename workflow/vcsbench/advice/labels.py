"""Labels of axes, values, cells and groups of cells, and the texts of factors and times."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, CLIENTS_AXIS, COMMAND_AXIS, FORMAT_AXIS
from vcsbench.plan.grid import AxisValues
from vcsbench.words import count_of, significant

# The axes that case_label() prints in front of the brackets.
HEAD_AXES = (COMMAND_AXIS, CACHE_AXIS, ACCESS_AXIS)
# The access without a server.
FILE = "file"
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

    `where` has the values of the case: {"command": "log", "cache": "cold"}. The state of the caches is part
    of the label, too, unless `names_cache` is False, for texts that name it elsewhere. Examples: `export over
    svn, OS cache warm (f7, packed)`, `cold log`, and `all cases` without any value.
    """
    cache = where.get(CACHE_AXIS, "") if names_cache else ""
    access = where.get(ACCESS_AXIS, "")
    # The words of the command, such as `cold log over svn`. A cache of "" is not cold.
    command_words = []
    if cache_state(cache).is_cold:
        command_words.append("cold")
    if where.get(COMMAND_AXIS):
        command_words.append(value_label(COMMAND_AXIS, where[COMMAND_AXIS]))
    if access and ACCESS_AXIS in shown:
        command_words.append(f"over {access}")
    # _warmth() is such as `OS cache warm`, and "" for a cold state, which `cold` names already.
    head_parts = [" ".join(command_words), _warmth(cache, access)]
    head = ", ".join(part for part in head_parts if part)
    # The labels of the shown axes that the head does not have.
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


def _warmth(cache: str, access: str) -> str:
    """Return the label of a warm state of the caches: `OS cache warm`; "" for another state."""
    state = cache_state(cache)
    if state.is_cold:
        return ""
    # The label of this state names the cache of the server, but an access over file has no server.
    if state.keeps_server and access == FILE:
        return "caches warm"
    return value_label(CACHE_AXIS, cache)


def group_label(where: AxisValues) -> str:
    """Return the name that cells with the same command and temperature share: `cold log`, `warm log`.

    Return `log` for a cell without a state of caches, and `cold` for one without a command. All states but
    the cold one are warm.
    """
    cache = where.get(CACHE_AXIS, "")
    command = value_label(COMMAND_AXIS, where.get(COMMAND_AXIS, ""))
    if not cache:
        return command
    temperature = "cold" if cache_state(cache).is_cold else "warm"
    return f"{temperature} {command}".strip()


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
    """Return the range of the factors of cases: `["1.4x to 1.6x"]`.

    A member is the values of a case, and a factor of at least 1: ({"format": "f6"}, 1.4). There is at least
    one member. An axis explains the range if its values have ranges that are far apart: by the square of
    `margin` or more, such as 1.21 for 1.1. Then each value has its own range: `["f6 1.4x", "f7 3.2x to
    3.5x"]`. If a second axis differs together with this axis, both may be the cause, and both are named:
    `["http and loopback 14x", "https and line 2.4x"]`.
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
            # Only later axes can differ together with this one: an earlier axis would have explained the
            # range itself. `names` has the words of each value, such as `http and loopback`.
            names = _name_values(axis, axes[number + 1 :], members)
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
    not named. `members` has the values of each case, with a factor that is not used here.
    """
    wheres = [where for where, _ in members]
    names = {where.get(axis, ""): value_label(axis, where.get(axis, "")) for where in wheres}
    for other in other_axes:
        # The different pairs of values, such as ("http", "loopback").
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


def slight_note(ratios: Sequence[float], min_effect_pct: float) -> str:
    """Return ` (sure but small)` if all ratios of called differences are below the smallest effect."""
    is_slight = all(at_least_1(ratio) < 1 + min_effect_pct / 100 for ratio in ratios)
    return f" ({SLIGHT})" if is_slight else ""


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


def seconds(value: float, more_digits: int = 0) -> str:
    """Return a time with about three significant digits: `0.093 s`, `1.57 s`, `12.3 s`."""
    decimals = 1
    if value < 0.0995:
        decimals = 3
    elif value < 9.95:
        decimals = 2
    return f"{value:.{decimals + more_digits}f} s"


def seconds_of_both(values: Sequence[float]) -> list[str]:
    """Return two times with a digit more if they are close, so that their quotient agrees with the factor."""
    shorter, longer = min(values), max(values)
    is_close = 0 < shorter < longer < 1 and longer < 1.2 * shorter
    return [seconds(value, more_digits=1 if is_close else 0) for value in values]


def detectable_text(ratio: float) -> str:
    """Return the smallest detectable difference, below a factor of 2 in per cent."""
    # 1.995 and more would be printed as 2.0x.
    return f"{100 * (ratio - 1):.2g} %" if ratio < 1.995 else factor(ratio)
