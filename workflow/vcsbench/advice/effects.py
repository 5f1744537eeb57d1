"""The effect of a value on time: in one case (decision.Case), and over several cases.

A group is a kind of case, such as all cold logs (case_groups.CaseGroup). Cards judge values by their losses
in the case (Case.losses), so over chains of comparisons. Steps judge a change by the comparison of its two
values alone (steps.find_outcomes).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vcsbench.advice.case_groups import CaseGroup, group_of_case
from vcsbench.advice.decision import ROUNDING, Case
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import Call, Result
from vcsbench.plan.grid import AxisValues

# With fewer cases, an effect that only cases with one value have may have that value by chance.
MIN_CONDITION_CASES = 2


@dataclass(frozen=True)
class CaseEffect:
    """The effect of a value in one case, compared with another value.

    `gain` is how many times as fast it is as the other value, None if it is not faster. `loss` is how many
    times as long it takes, None if it is not slower. At most one of the two is known.
    """

    effect: Call
    gain: float | None = None
    loss: float | None = None


def effect_in_case(value: str, case: Case, against: str) -> CaseEffect:
    """Return the effect of a value in a case against another value.

    Example with the times f6 12 s, f7 6 s and f8 4 s: f7 against f6 is FASTER (gain 2.0), and f7 against f8
    is SLOWER (loss 1.5). If `against` is the value itself, the value is compared with the fastest one: f7 is
    SLOWER (loss 1.5). The fastest value itself is compared with the slowest: f8 is FASTER (gain 3.0).
    """
    # The times as multiples of the best time: {"f6": 3, "f7": 1.5, "f8": 1}.
    losses = case.losses
    if value not in losses:
        if case.is_decided and not case.compares(value):
            # The case has a result, but only for other values.
            return CaseEffect(Call.NOT_COMPARED)
        return CaseEffect(_why_undecided(value, case))
    if against != value:
        if against not in losses:
            return CaseEffect(_why_undecided(against, case))
        compared_loss = losses[against]
    elif losses[value] > 1 + ROUNDING:
        # The fastest value is another one, and has the loss 1.
        compared_loss = 1.0
    else:
        # The value is the fastest, so it is compared with the slowest.
        compared_loss = max(losses.values())
    # How many times as fast the value is. Below 1, it is slower.
    ratio = compared_loss / losses[value]
    if ratio > 1 + ROUNDING:
        return CaseEffect(Call.FASTER, gain=ratio)
    if 1 / ratio > 1 + ROUNDING:
        return CaseEffect(Call.SLOWER, loss=1 / ratio)
    return CaseEffect(Call.EQUAL)


def _why_undecided(value: str, case: Case) -> Call:
    """Return TOO_SMALL, BOUNDED or UNDECIDED for a case that does not decide a value.

    Return the first of these three that a comparison of the value has. If the value has no comparisons, all
    comparisons of the case count.
    """
    pairs = [pair for pair in case.pairs if pair.compares(value)] or case.pairs
    results = {pair.result for pair in pairs}
    if Result.TOO_SMALL in results:
        return Call.TOO_SMALL
    return Call.BOUNDED if Result.BOUNDED in results else Call.UNDECIDED


@dataclass(frozen=True)
class CombinedEffect:
    """The effect of a value over cases: the factors of its CaseEffects by group, and numbers of cases.

    Example: gains {cold log: [2.4, 6.9]}, losses {}, and counts {FASTER: 2, UNDECIDED: 1}, where `cold log`
    stands for its CaseGroup. The group with the largest factor comes first. Groups without a server follow,
    and commands of svnbench come last.
    """

    gains: Mapping[CaseGroup, Sequence[float]]
    losses: Mapping[CaseGroup, Sequence[float]]
    counts: Counter[Call]


def combine_effects(value: str, cases: Sequence[Case], against: str) -> CombinedEffect:
    """Return the effect of a value, such as f7, over cases, compared with the value `against`, such as f6.

    Gains and losses are listed by group, such as all cold exports. If these are faster over svn and slower
    over http, each access becomes a group: `cold export over svn` and `cold export over http`. If only packed
    ones are faster, the group of the gains is `cold export (packed)`. If `against` is `value` itself, gains
    are over the slowest value of each case, and losses against the fastest.
    """
    effects = [(case, effect_in_case(value, case, against)) for case in cases]
    split_groups = _find_groups_split_by_access(effects)
    counts = Counter(in_case.effect for _, in_case in effects)
    gains = [(case, in_case.gain) for case, in_case in effects if in_case.gain is not None]
    losses = [(case, in_case.loss) for case, in_case in effects if in_case.loss is not None]
    return CombinedEffect(
        _group_factors(gains, cases, split_groups),
        _group_factors(losses, cases, split_groups),
        counts,
    )


def _group_factors(
    factors: Sequence[tuple[Case, float]],
    cases: Sequence[Case],
    split_groups: Collection[CaseGroup],
) -> dict[CaseGroup, list[float]]:
    """Return the factors of some of the `cases` by group, in the order of texts.

    Each access of a group in `split_groups` is a group of its own. Of any other group, the value is named to
    which its factors are limited, if there is one (_find_condition).
    """
    cases_by_group: defaultdict[CaseGroup, list[Case]] = defaultdict(list)
    for case in cases:
        cases_by_group[group_of_case(case.where)].append(case)
    changed_by_group: defaultdict[CaseGroup, list[Case]] = defaultdict(list)
    for case, _ in factors:
        changed_by_group[group_of_case(case.where)].append(case)
    conditions = {
        group: _find_condition(changed, cases_by_group[group])
        for group, changed in changed_by_group.items()
    }
    # A rank is the place of a group in texts. A part of a group has the rank of the whole group.
    ranks = _rank_groups(cases)
    factors_by_group: defaultdict[CaseGroup, list[float]] = defaultdict(list)
    for case, factor in factors:
        whole_group = group_of_case(case.where)
        axis, value = conditions[whole_group]
        if whole_group in split_groups:
            axis, value = ACCESS_AXIS, case.where[ACCESS_AXIS]
        group = replace(whole_group, axis=axis, value=value)
        ranks[group] = ranks[whole_group]
        factors_by_group[group].append(factor)
    return _sort_groups(factors_by_group, ranks)


def _find_condition(changed: Sequence[Case], cases: Sequence[Case]) -> tuple[str, str]:
    """Return the axis and the value to which an effect is limited, ("", "") without one.

    `cases` are all of a group, such as the cold logs over http and svn, packed or not. `changed` are those
    with the effect. If all of these are packed, and most of the packed ones are among them, return
    ("packing", "pack"). Of several values, the one with the fewest cases fits best. A single case shows no
    pattern.
    """
    if len(changed) < MIN_CONDITION_CASES:
        return "", ""
    fitting = []
    for axis, value in changed[0].where.items():
        with_value = [case for case in cases if case.where.get(axis) == value]
        is_limited = all(case.where.get(axis) == value for case in changed)
        # The axes of a group, such as the command, have one value in all cases. The name of a group has the
        # temperature of its caches already.
        is_distinct = axis != CACHE_AXIS and len(with_value) < len(cases)
        if value and is_limited and is_distinct and 2 * len(changed) > len(with_value):
            fitting.append((len(with_value), axis, value))
    if not fitting:
        return "", ""
    _, axis, value = min(fitting)
    return axis, value


def _find_groups_split_by_access(
    effects: Sequence[tuple[Case, CaseEffect]],
) -> set[CaseGroup]:
    """Return the groups (kinds of cases) that are faster over some accesses, and slower over others.

    Example: cold exports are faster over svn, and slower over http. Without its accesses (svn, http, file),
    the text on this group would be a contradiction: `cold export 1.3x faster, cold export 1.4x slower`.
    """
    # {cold export: {"svn"}}, and below {cold export: {"http"}}.
    faster_over: defaultdict[CaseGroup, set[str]] = defaultdict(set)
    slower_over: defaultdict[CaseGroup, set[str]] = defaultdict(set)
    for case, in_case in effects:
        group = group_of_case(case.where)
        # A command without a server, such as a dump, has the access "", which no text can name.
        access = case.where.get(ACCESS_AXIS, "")
        if in_case.gain is not None:
            faster_over[group].add(access)
        if in_case.loss is not None:
            slower_over[group].add(access)
    split_groups = set()
    for group in faster_over.keys() & slower_over.keys():
        has_names = "" not in faster_over[group] | slower_over[group]
        # Cold exports over http that are partly faster and partly slower have another cause than the access.
        is_split_by_access = faster_over[group].isdisjoint(slower_over[group])
        if has_names and is_split_by_access:
            split_groups.add(group)
    return split_groups


def collect_losses(value: str, cases: Sequence[Case]) -> dict[CaseGroup, list[float]]:
    """Return how many times as long a value takes as the best value of each case, by group.

    Cases in which the value is the best one, or is not decided, are left out. The groups are in their order
    in texts.
    """
    losses: defaultdict[CaseGroup, list[float]] = defaultdict(list)
    for case in cases:
        loss = case.losses.get(value, 1.0)
        if loss > 1 + ROUNDING:
            losses[group_of_case(case.where)].append(loss)
    return _sort_groups(losses, _rank_groups(cases))


def _rank_groups(cases: Sequence[Case]) -> dict[CaseGroup, int]:
    """Return the rank of each group in texts: the most important groups have the smallest."""
    # Texts begin with the groups that matter to most users. Few users run a command without an access, such
    # as a dump, and nobody runs a command of svnbench at work.
    with_access, without_access, of_svnbench = range(3)
    ranks: dict[CaseGroup, int] = {}
    has_accesses = any(case.where.get(ACCESS_AXIS) for case in cases)
    for case in cases:
        group = group_of_case(case.where)
        # The cases of a group have the same command, so nearly always the same rank. The last case decides.
        if is_benchmark(case.where):
            ranks[group] = of_svnbench
        elif has_accesses and not case.where.get(ACCESS_AXIS):
            ranks[group] = without_access
        else:
            ranks[group] = with_access
    return ranks


def _sort_groups(
    factors: Mapping[CaseGroup, list[float]], ranks: Mapping[CaseGroup, int]
) -> dict[CaseGroup, list[float]]:
    """Return the factors of groups in the order of the ranks; for equal ranks, the largest factor first."""

    def sort_key(group: CaseGroup) -> tuple[int, float]:
        return ranks[group], -max(factors[group])

    return {group: factors[group] for group in sorted(factors, key=sort_key)}


def is_benchmark(where: AxisValues) -> bool:
    """Return True for a command of svnbench, which nobody runs at work."""
    command = where.get(COMMAND_AXIS, "")
    return load_vocabulary().value(COMMAND_AXIS, command).benchmark


def has_less_client_work(axis: str, where: AxisValues) -> bool:
    """Return True for accesses and a command of svnbench: over svn, its client does less work."""
    return axis == ACCESS_AXIS and is_benchmark(where)
