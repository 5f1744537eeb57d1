"""The rule that splits an answer by the kind of case: `f7 for cold log, f6 otherwise`."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from vcsbench.advice import decision, labels
from vcsbench.advice.decision import Case, Where
from vcsbench.statistics.comparisons import Limits

# The groups of cases in which to choose each value.
Rule = Mapping[str, Sequence[str]]


def find_rule(
    cases: Sequence[Case], best: str, reference: str, limits: Limits
) -> dict[str, list[str]]:
    """Return the groups of cases for each value: `{"f7": ["cold log"], "f6": ["export"]}`.

    `best` is the value to choose over all cases. A group gets another value, and `best` keeps the others,
    only if both parts win by more than the margin. The first grouping with such parts is taken, because
    the first are the simplest. Return {} without one.
    """
    decided = [case for case in cases if case.is_decided]
    for grouping in _groupings(decided):
        groups: dict[str, list[Case]] = {}
        for case in decided:
            groups.setdefault(grouping(case.where), []).append(case)
        rule = _rule_of_groups(groups, best, reference, limits)
        if rule:
            return _without_temperature(rule)
    return {}


def _groupings(cases: Sequence[Case]) -> Iterator[Callable[[Where], str]]:
    """Yield functions from a case's values to the name of its group, the simplest first."""
    yield lambda where: where.get("command", "")
    yield lambda where: labels.group_label({**where, "command": ""})
    axes = dict.fromkeys(axis for case in cases for axis in case.where)
    for axis in axes:
        if axis not in ("command", "cache"):
            yield partial(_axis_group, axis)
    yield labels.group_label


def _rule_of_groups(
    groups: Mapping[str, Sequence[Case]], best: str, reference: str, limits: Limits
) -> dict[str, list[str]]:
    rule: dict[str, list[str]] = {best: []}
    for name, cases in groups.items():
        values = [value for value in decision.decided_values(cases) if value != best]
        winners = [
            value for value in values if win_of(value, best, cases, reference) > limits.margin
        ]
        # The winner loses nowhere in its group by more than the margin.
        winners = [
            value
            for value in winners
            if max(case.loss(value, reference) for case in cases) <= limits.margin
        ]
        chosen = max(winners, default=best, key=lambda v: win_of(v, best, cases, reference))
        rule.setdefault(chosen, []).append(name)
    others = [value for value in rule if value != best]
    if not others or not rule[best]:
        return {}
    kept = [case for name in rule[best] for case in groups[name]]
    wins = [win_of(best, value, kept, reference) for value in others]
    return rule if min(wins) > limits.margin else {}


def win_of(value: str, other: str, cases: Sequence[Case], reference: str) -> float:
    """Return by which factor a value is faster than another, as the geometric mean over cases."""
    logs = [
        math.log(case.loss(other, reference)) - math.log(case.loss(value, reference))
        for case in cases
    ]
    return math.exp(math.fsum(logs) / len(logs))


def _axis_group(axis: str, where: Where) -> str:
    value = where.get(axis, "")
    return f"over {value}" if axis == "ra" and value else labels.value_label(axis, value)


def _without_temperature(rule: Rule) -> dict[str, list[str]]:
    """Return the rule with `log` in place of `cold log` and `warm log` of one value."""
    merged = {}
    for value, names in rule.items():
        commands = [name.partition(" ")[2] for name in names]
        in_both = {c for c in commands if {f"cold {c}", f"warm {c}"} <= {*names}}
        pairs = zip(names, commands, strict=True)
        merged[value] = list(dict.fromkeys(c if c in in_both else name for name, c in pairs))
    return merged
