"""The rule that splits an answer by the kind of case: `f7 for cold log, f6 for export`.

Cases (decision.Case) of one kind are a group.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.comparisons import Limits

# The beginning of the name of a group of cases with the same access: `over http`.
ACCESS_GROUP_PREFIX = "over "
# The groups of cases in which to choose each value: `{"f7": ["cold log"], "f6": ["export"]}`.
Rule = Mapping[str, Sequence[str]]


def find_rule(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> Rule:
    """Return groups of cases by the value to choose in them: `{"f7": ["cold log"], "f6": ["export"]}`.

    A case has the comparisons for one combination of the other axes, such as the cold log over http. `best`
    is the value to choose if it must be one for all cases, here f7. `reference` is the value that stays if
    the user changes nothing. Groups give a rule if another value is faster than `best` in some of them, and
    slower in the rest, each by more than the margin in `limits`, such as 1.1. Return {} if no groups do.
    """
    # There are several ways to group the cases, such as by command or by access. Each is a function, which
    # returns the name of a case's group, such as `log`, from the values of the case. The first way that gives
    # a rule is used, because it is the simplest.
    for group_of in _groupings(cases):
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(group_of(case.where), []).append(case)
        # Cases to which an axis does not apply are in the group "", which a text could not name.
        if "" in groups:
            continue
        rule = _rule_of_groups(groups, best, reference, limits)
        if rule:
            # `cold log` and `warm log` with the same value become `log`.
            return _without_temperature(rule)
    return {}


def _groupings(cases: Sequence[Case]) -> Iterator[Callable[[AxisValues], str]]:
    """Yield functions from the values of a case to the name of its group, the simplest function first.

    They group by command (`log`), by temperature (`cold`), by each other axis (`over http`, `packed`), and at
    last by temperature and command (`cold log`).
    """
    yield lambda where: labels.value_label(COMMAND_AXIS, where.get(COMMAND_AXIS, ""))
    # Without its command, the label of a group is `cold` or `warm`.
    yield lambda where: labels.group_label({**where, COMMAND_AXIS: ""})
    axes = dict.fromkeys(axis for case in cases for axis in case.where)
    for axis in axes:
        if axis not in (COMMAND_AXIS, CACHE_AXIS):
            yield partial(_axis_group, axis)
    yield labels.group_label


def _axis_group(axis: str, where: AxisValues) -> str:
    """Return the name of a case's group on an axis: `over http`, or the label of its value: `packed`.

    Return "" for a case to which the axis does not apply.
    """
    value = where.get(axis, "")
    if axis == ACCESS_AXIS and value:
        return f"{ACCESS_GROUP_PREFIX}{value}"
    return labels.value_label(axis, value)


def _rule_of_groups(
    groups: Mapping[str, Sequence[Case]], best: str, reference: str, limits: Limits
) -> Rule:
    """Return the names of groups by the value to choose in them, `best` first.

    Example: `{"f7": ["cold log"], "f6": ["export"]}`, for the best value f7. `groups` has the cases of each
    group by its name. `reference` is the value that stays if the user changes nothing. If a case shows
    nothing about a value, the value counts there as equal to the reference. `limits` has the margin. Return
    {} if `best` is chosen in all groups, or in none, or if another value would do for all cases.
    """
    rule: dict[str, list[str]] = {best: []}
    for name, cases in groups.items():
        # The value that is faster than `best` in this group by more than the margin, or `best` itself.
        value = _value_of_group(cases, best, reference, limits)
        rule.setdefault(value, []).append(name)
    other_values = [value for value in rule if value != best]
    if not other_values or not rule[best]:
        return {}
    # Suppose that f6 wins for export, and is as fast as the best value f7 for log. Then f6 would do for all
    # cases, and no rule is needed. So in the groups of `best`, each other value must be slower on average by
    # more than the margin, such as 1.1.
    cases_of_best = [case for name in rule[best] for case in groups[name]]
    # A win of 1.3 means that `best` is 1.3 times as fast as the value there.
    wins = []
    for value in other_values:
        wins.append(_mean_win(best, over=value, cases=cases_of_best, reference=reference))
    return rule if min(wins) > limits.margin else {}


def _value_of_group(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> str:
    """Return the value with the largest mean win over `best` in a group, or `best` itself.

    A win is how many times as fast a value is as `best`. It must be more than the margin, such as 1.1. In no
    case of the group may the value be slower than the fastest value there by more than the margin. A loss is
    a time divided by the best time of its case. If a case shows no loss of a value, assumed_loss() returns an
    assumption, mostly the loss of the reference. Only values with a decided comparison in the group compete.
    """
    chosen, largest_win = best, limits.margin
    for value in decision.decided_values(cases):
        win = _mean_win(value, over=best, cases=cases, reference=reference)
        worst_loss = max(case.assumed_loss(value, reference) for case in cases)
        if win > largest_win and worst_loss <= limits.margin:
            chosen, largest_win = value, win
    return chosen


def _mean_win(value: str, over: str, cases: Sequence[Case], reference: str) -> float:
    """Return how many times as fast `value` is as the value `over`: the geometric mean over cases.

    A loss is a time divided by the best time of its case. So the quotient of two losses is that of two times.
    """
    logs = []
    for case in cases:
        factor = case.assumed_loss(over, reference) / case.assumed_loss(value, reference)
        logs.append(math.log(factor))
    return math.exp(fmean(logs))


def _without_temperature(rule: Rule) -> dict[str, list[str]]:
    """Return the rule with `log` in place of `cold log` and `warm log`, if both have the same value.

    Example: {"f7": ["cold log", "warm log", "cold export"]} becomes {"f7": ["log", "cold export"]}.
    """
    shortened = {}
    for value, names in rule.items():
        groups = []
        for name in names:
            # A name may also have no temperature. Then the condition below is False.
            _, _, command = name.partition(" ")
            has_both = f"cold {command}" in names and f"warm {command}" in names
            groups.append(command if has_both else name)
        shortened[value] = list(dict.fromkeys(groups))
    return shortened
