"""The rule that splits an answer by the kind of case: `f7 for cold log, f6 otherwise`."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case, Where
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.statistics.comparisons import Limits

# The groups of cases in which to choose each value: `{"f7": ["cold log"], "f6": ["export"]}`.
Rule = Mapping[str, Sequence[str]]


def find_rule(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> Rule:
    """Return the groups of cases for each value: `{"f7": ["cold log"], "f6": ["export"]}`.

    `best` is the value to choose over all cases. A group gets another value, and `best` keeps the others,
    only if both parts win by more than the margin. The first grouping with such parts is taken, because
    the first are the simplest. Return {} without one.
    """
    decided = [case for case in cases if case.is_decided]
    for group_of in _groupings(decided):
        groups: dict[str, list[Case]] = {}
        for case in decided:
            groups.setdefault(group_of(case.where), []).append(case)
        rule = _rule_of_groups(groups, best, reference, limits)
        if rule:
            # The last grouping separates cold from warm also where that makes no difference.
            return _without_temperature(rule)
    return {}


def _groupings(cases: Sequence[Case]) -> Iterator[Callable[[Where], str]]:
    """Yield functions from a case's values to the name of its group, the simplest first.

    These are the command, cold or warm, each other axis, and command with cold or warm.
    """
    yield lambda where: where.get(COMMAND_AXIS, "")
    yield lambda where: labels.group_label({**where, COMMAND_AXIS: ""})
    axes = dict.fromkeys(axis for case in cases for axis in case.where)
    for axis in axes:
        if axis not in (COMMAND_AXIS, CACHE_AXIS):
            yield partial(_axis_group, axis)
    yield labels.group_label


def _axis_group(axis: str, where: Where) -> str:
    value = where.get(axis, "")
    return f"over {value}" if axis == ACCESS_AXIS and value else labels.value_label(axis, value)


def _rule_of_groups(
    groups: Mapping[str, Sequence[Case]], best: str, reference: str, limits: Limits
) -> Rule:
    """Return the groups for each value if another value than `best` wins in some of them, otherwise {}."""
    rule: dict[str, list[str]] = {best: []}
    for name, cases in groups.items():
        value = _value_of_group(cases, best, reference, limits)
        rule.setdefault(value, []).append(name)
    others = [value for value in rule if value != best]
    if not others or not rule[best]:
        return {}
    # Where the other values are not chosen, they must be worse: otherwise one of them would do everywhere.
    remaining = [case for name in rule[best] for case in groups[name]]
    wins = [mean_win(best, value, remaining, reference) for value in others]
    return rule if min(wins) > limits.margin else {}


def _value_of_group(cases: Sequence[Case], best: str, reference: str, limits: Limits) -> str:
    """Return the value with the largest win over `best` in a group, `best` itself without such a value.

    A value that loses by more than the margin in some case of the group is not taken.
    """
    chosen, largest_win = best, limits.margin
    for value in decision.decided_values(cases):
        if value == best:
            continue
        win = mean_win(value, best, cases, reference)
        worst_loss = max(case.loss(value, reference) for case in cases)
        if win > largest_win and worst_loss <= limits.margin:
            chosen, largest_win = value, win
    return chosen


def mean_win(value: str, other: str, cases: Sequence[Case], reference: str) -> float:
    """Return by which factor a value is faster than another, as the geometric mean over cases."""
    logs = [
        math.log(case.loss(other, reference)) - math.log(case.loss(value, reference))
        for case in cases
    ]
    return math.exp(math.fsum(logs) / len(logs))


def _without_temperature(rule: Rule) -> dict[str, list[str]]:
    """Return the rule with `log` in place of `cold log` and `warm log` of one value."""
    shortened = {}
    for value, names in rule.items():
        groups: dict[str, None] = {}
        for name in names:
            _, _, command = name.partition(" ")
            has_both = f"cold {command}" in names and f"warm {command}" in names
            groups[command if has_both else name] = None
        shortened[value] = list(groups)
    return shortened
