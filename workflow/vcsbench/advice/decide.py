"""The decision rule: recommend the value with the smallest worst regret.

The regret of a value in a case is its time divided by the best time there. With a workload the rule is the
smallest weighted mean of the logarithms of the regrets. A value that a case lacks, or that is too noisy
there, counts as the reference, which is what stays if nothing is changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vcsbench.advice.cases import Case
from vcsbench.advice.labels import group_label, value_label

VALUE, EQUAL, DEPENDS, UNDECIDED, NOT_MEASURED = (
    "value",
    "equal",
    "depends",
    "undecided",
    "not measured",
)
# Regrets that differ by less are the same.
_SAME = 1e-9


@dataclass(frozen=True)
class Decision:
    """The result of the rule.

    `value` is the one to choose, also where the answer depends on the case. `worst` has the largest regret of
    each value. `rule` has for each value the groups of cases in which to choose it, if the kind is DEPENDS.
    """

    kind: str
    value: str = ""
    worst: Mapping[str, float] = field(default_factory=dict)
    rule: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decided: int = 0
    cases: int = 0


def decide(
    cases: Sequence[Case],
    reference: str,
    min_effect_pct: float,
    weights: Sequence[float] = (),
) -> Decision:
    """Apply the rule to cases; `weights` are those of a workload, one per case."""
    if not cases:
        return Decision(NOT_MEASURED)
    counted = [case for case in cases if case.is_decided]
    if not counted:
        return Decision(UNDECIDED, cases=len(cases))
    worst = {value: worst_regret(value, counted, reference) for value in values_of(counted)}
    sizes = {"worst": worst, "decided": len(counted), "cases": len(cases)}
    if all(regret <= 1 + _SAME for regret in worst.values()):
        return Decision(EQUAL, reference if reference in worst else next(iter(worst)), **sizes)  # type: ignore[arg-type]
    if weights and any(weights):
        pairs = [(c, w) for c, w in zip(cases, weights, strict=True) if c.is_decided]
        best = min(worst, key=lambda value: _mean_log_regret(value, pairs, reference))
        return Decision(VALUE, best, **sizes)  # type: ignore[arg-type]
    best = _smallest(worst, counted, reference)
    if worst[best] <= 1 + min_effect_pct / 100 + _SAME:
        return Decision(VALUE, best, **sizes)  # type: ignore[arg-type]
    rule = find_rule(counted, reference, min_effect_pct)
    return Decision(DEPENDS, best, rule=rule, **sizes)  # type: ignore[arg-type]


def values_of(cases: Sequence[Case]) -> list[str]:
    """Return all values that the cases compare, in order of appearance."""
    return list(dict.fromkeys(value for case in cases for value in case.costs))


def regret(value: str, case: Case, reference: str) -> float:
    """Return the time of a value divided by the best time of the case, at least 1."""
    costs = case.costs
    return costs.get(value, costs.get(reference, 1.0))


def worst_regret(value: str, cases: Sequence[Case], reference: str) -> float:
    """Return the largest regret of a value over the cases."""
    return max(regret(value, case, reference) for case in cases)


def _mean_log_regret(value: str, pairs: Sequence[tuple[Case, float]], reference: str) -> float:
    total = math.fsum(weight for _, weight in pairs) or 1.0
    logs = (weight * math.log(regret(value, case, reference)) for case, weight in pairs)
    return math.fsum(logs) / total


def _smallest(worst: Mapping[str, float], cases: Sequence[Case], reference: str) -> str:
    """Return the value with the smallest worst regret; of equal ones that with the smallest mean."""
    even = [(case, 1.0) for case in cases]

    def key(value: str) -> tuple[float, float]:
        return round(worst[value], 6), _mean_log_regret(value, even, reference)

    return min(worst, key=key)


_WARM = {"cold": "cold", "hot": "hot", "hot-os": "OS-warm", "hot-svn": "server-warm"}
Split = Callable[[Mapping[str, str]], str]


def _splits(cases: Sequence[Case]) -> Iterator[Split]:
    """Yield ways to group cases, the simplest first."""
    axes = list(dict.fromkeys(axis for case in cases for axis in case.where))
    yield lambda where: where.get("command", "")
    yield lambda where: group_label({**where, "command": ""})
    for axis in axes:
        if axis not in ("command", "cache"):
            yield lambda where, axis=axis: _named(axis, where)  # type: ignore[misc]
    yield group_label
    yield (
        lambda where: f"{_WARM.get(where.get('cache', ''), '')} {where.get('command', '')}".strip()
    )
    for axis in axes:
        if axis not in ("command", "cache"):
            yield lambda where, axis=axis: f"{group_label(where)} {_named(axis, where)}".strip()  # type: ignore[misc]


def _named(axis: str, where: Mapping[str, str]) -> str:
    value = where.get(axis, "")
    return f"over {value}" if axis == "ra" and value else value_label(axis, value)


def find_rule(cases: Sequence[Case], reference: str, min_effect_pct: float) -> dict[str, list[str]]:
    """Return the groups of cases in which to choose each value.

    The first split wins in which each group has a value that loses at most the smallest effect worth
    noting; otherwise the split with the smallest worst regret.
    """
    limit, found = 1 + min_effect_pct / 100 + _SAME, []
    for rank, split in enumerate(_splits(cases)):
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(split(case.where), []).append(case)
        chosen: dict[str, list[str]] = {}
        worst = 1.0
        for name, members in groups.items():
            regrets = {v: worst_regret(v, members, reference) for v in values_of(members)}
            best = _smallest(regrets, members, reference)
            chosen.setdefault(best, []).append(name)
            worst = max(worst, regrets[best])
        if len(chosen) > 1:
            found.append((max(0.0, worst - limit), rank, chosen))
    return _merged(min(found, key=lambda one: one[:2])[2]) if found else {}


def _merged(rule: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Join `cold export` and `hot export` of one value to `export` where no other value has either."""
    merged: dict[str, list[str]] = {}
    for value, names in rule.items():
        pairs = [
            (first, name.removeprefix(f"{first} "))
            for name in names
            for first in ("cold", "hot")
            if name.startswith(f"{first} ")
        ]
        both = {
            command for _, command in pairs if {("cold", command), ("hot", command)} <= {*pairs}
        }
        done: dict[str, None] = {}
        for name in names:
            command = name.partition(" ")[2]
            done[command if command in both else name] = None
        merged[value] = list(done)
    return merged
