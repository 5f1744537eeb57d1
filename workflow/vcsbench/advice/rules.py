"""The rule that splits an answer by the kind of case: `f7 for cold log, f6 for export`.

Cases (decision.Case) of one kind are a group (case_groups.CaseGroup).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from vcsbench.advice import decision
from vcsbench.advice.case_groups import (
    UNNAMED_GROUP,
    CaseGroup,
    Temperature,
    group_of_case,
    temperature_of,
)
from vcsbench.advice.decision import Case
from vcsbench.axis_names import CACHE_AXIS, COMMAND_AXIS
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.comparisons import Limits

# The groups of cases in which to choose each value: {"f7": [cold log], "f6": [export]}. In examples such as
# this one, `cold log` stands for CaseGroup("log", Temperature.COLD).
Rule = Mapping[str, Sequence[CaseGroup]]


def find_rule(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> Rule:
    """Return groups of cases by the value to choose in them: {"f7": [cold log], "f6": [export]}.

    `best` is the value to choose if it must be one for all cases, here f7. In some groups, here export,
    another value must be faster than `best`. In all other groups, it must be slower. Each difference must be
    larger than the margin in `limits`. Return {} if no way to group the cases gives such a rule. `reference`
    is the value that stays if the user changes nothing.
    """
    # The first way to group the cases that gives a rule is used, because it is the simplest.
    for group_of in _groupings(cases):
        groups: dict[CaseGroup, list[Case]] = {}
        for case in cases:
            groups.setdefault(group_of(case.where), []).append(case)
        # In a grouping by access, for example, this group has the commands without an access, such as dump. A
        # text has no name for such cases, so the grouping is not used.
        if UNNAMED_GROUP in groups:
            continue
        rule = _rule_of_groups(groups, best, reference, limits)
        if rule:
            return _without_temperature(rule)
    return {}


def _groupings(cases: Sequence[Case]) -> Iterator[Callable[[AxisValues], CaseGroup]]:
    """Yield functions from the values of a case to its group, the simplest function first.

    They group by command, by temperature, by each other axis, such as the access, and at last by temperature
    and command.
    """
    yield lambda where: CaseGroup(command=where.get(COMMAND_AXIS, ""))
    yield lambda where: CaseGroup(temperature=temperature_of(where))
    axes = dict.fromkeys(axis for case in cases for axis in case.where)
    for axis in axes:
        if axis not in (COMMAND_AXIS, CACHE_AXIS):
            yield partial(_axis_group, axis)
    yield group_of_case


def _axis_group(axis: str, where: AxisValues) -> CaseGroup:
    """Return the group by the value of an axis, UNNAMED_GROUP if the axis does not apply to the case."""
    value = where.get(axis, "")
    return CaseGroup(axis=axis, value=value) if value else UNNAMED_GROUP


def _rule_of_groups(
    groups: Mapping[CaseGroup, Sequence[Case]], best: str, reference: str, limits: Limits
) -> Rule:
    """Return the groups by the value to choose in them, `best` first: {"f7": [cold log], "f6": [export]}.

    Return {} if `best` is chosen in all groups, or in none, or if another value would do for all cases.
    """
    rule: dict[str, list[CaseGroup]] = {best: []}
    for group, cases in groups.items():
        value = _value_of_group(cases, best, reference, limits)
        rule.setdefault(value, []).append(group)
    other_values = [value for value in rule if value != best]
    if not other_values or not rule[best]:
        return {}
    # Suppose that f6 wins for export, and is as fast as the best value f7 for log. Then f6 would do for all
    # cases, and no rule is needed. So in the groups of `best`, each other value must be slower on average by
    # more than the margin.
    cases_of_best = [case for group in rule[best] for case in groups[group]]
    wins = []
    for value in other_values:
        wins.append(_mean_win(best, over=value, cases=cases_of_best, reference=reference))
    return rule if min(wins) > limits.margin else {}


def _value_of_group(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> str:
    """Return the value with the largest mean win over `best` in a group, or `best` itself.

    The win must be more than the margin. In no case of the group may the value be slower than the fastest
    value there by more than the margin. Only values with a decided comparison in the group compete.
    """
    chosen, largest_win = best, limits.margin
    for value in decision.decided_values(cases):
        win = _mean_win(value, over=best, cases=cases, reference=reference)
        worst_loss = max(case.assumed_loss(value, reference) for case in cases)
        if win > largest_win and worst_loss <= limits.margin:
            chosen, largest_win = value, win
    return chosen


def _mean_win(value: str, over: str, cases: Sequence[Case], reference: str) -> float:
    """Return how many times as fast `value` is as the value `over`: the geometric mean over cases."""
    logs = []
    for case in cases:
        # Both losses are against the best time of the case, so their quotient is the quotient of the times.
        factor = case.assumed_loss(over, reference) / case.assumed_loss(value, reference)
        logs.append(math.log(factor))
    return math.exp(fmean(logs))


def _without_temperature(rule: Rule) -> dict[str, list[CaseGroup]]:
    """Return the rule with one group in place of a cold and a warm group, if both have the same value.

    Example: {"f7": [cold log, warm log, cold export]} becomes {"f7": [log, cold export]}.
    """
    shortened = {}
    for value, groups in rule.items():
        merged = []
        for group in groups:
            cold_and_warm = {replace(group, temperature=temperature) for temperature in Temperature}
            # Without a command, nothing would be left that names the group.
            if group.command and cold_and_warm.issubset(groups):
                merged.append(replace(group, temperature=None))
            else:
                merged.append(group)
        # Both groups have become the same one.
        shortened[value] = list(dict.fromkeys(merged))
    return shortened
