"""The wishes of a user for the own repository: each operation with the change that makes it fastest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.advice import labels, steps
from vcsbench.advice.cards import Advice, Card
from vcsbench.advice.effects import is_benchmark
from vcsbench.advice.questions import CardAction
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS, FORMAT_AXIS
from vcsbench.codes import Call
from vcsbench.config.study import WITHOUT_SERVER
from vcsbench.formats import parse_format
from vcsbench.plan.grid import AxisValues
from vcsbench.systems import SUBVERSION
from vcsbench.systems.base import System
from vcsbench.words import duration_from_1_s, enumeration


@dataclass(frozen=True)
class MeasuredWork:
    """The time that a change of the repository, such as packing it, took here.

    `amount` is what was changed: `20,000 revisions`. `is_in_memory` is True if no disk took part in it.
    """

    seconds: float
    amount: str
    is_in_memory: bool

    @property
    def text(self) -> str:
        """Return `4 s for 20,000 revisions`, or `4 s for 20,000 revisions in memory`."""
        storage = " in memory" if self.is_in_memory else ""
        return f"{duration_from_1_s(self.seconds)} for {self.amount}{storage}"


# By the axis of a change and its value, such as ("packing", "pack"), or ANY value.
WorkOfChange = Mapping[tuple[str, str], MeasuredWork]
ANY = "any"
# The kinds of servers whose caches a restart empties. The servers of git, and sshd, start a program for each
# request, so they keep no cache.
CACHING_SERVERS = ("svnserve", "httpd")


class Operation(NamedTuple):
    """The work of a user: values of the axes command, cache and access; "" for an axis without a value.

    `server` is the kind of the server of this access; "" without one.
    """

    command: str
    cache: str
    access: str
    server: str

    @property
    def occasion(self) -> str:
        """Return when a user does this work: `First log of the morning over svn (cold)`, `Dump`."""
        state = cache_state(self.cache)
        command = labels.value_label(COMMAND_AXIS, self.command)
        over = f" over {self.access}" if self.access else ""
        cache_label = labels.value_label(CACHE_AXIS, self.cache)
        # After a night, all caches are cold.
        if state.is_cold:
            return f"First {command} of the morning{over} ({cache_label})"
        # After a restart of the server, only the server's own caches are cold. Other servers have none.
        if state.is_hot and not state.keeps_server and self.server in CACHING_SERVERS:
            return f"First {command} after a restart of the server{over} ({cache_label})"
        if state.is_hot:
            return f"Repeated {command}{over} ({cache_label})"
        # The axis cache does not apply to this command.
        return f"{command.capitalize()}{over}"


@dataclass(frozen=True)
class Wish:
    """An operation, and a change of one axis that makes it faster by `factor`.

    With `is_at_least`, start-up hides a part of the gain, so `factor` is the least one.
    """

    operation: Operation
    # The name of the card's question, by which the page finds the card.
    question: str
    # The label of the new value.
    change: str
    factor: float
    is_at_least: bool
    before_s: float
    after_s: float
    # The labels of the values before the change that nothing shows to be the user's: `["default settings"]`.
    assumed: Sequence[str]
    # The command that applies the change: "" if that takes several lines, None without a command.
    command: str | None
    # It completes "Only if", "" without one. `downtime` names the interruption of the service.
    condition: str
    downtime: str
    # None if the change takes no time, or if it is unknown.
    work: MeasuredWork | None
    # The operations that become slower, with their factors.
    slower: Sequence[str]

    @property
    def text(self) -> str:
        """Return sentences on the gain, on price and condition of the change, and on slower operations.

        Example: `First log of the morning over svn (cold): packed, 1.7x faster, 1.57 → 0.93 s.`, `svnadmin
        pack REPO, no downtime, 4 s for 20,000 revisions.` and `Slower: cold export over svn (1.3x).`
        """
        before, after = labels.seconds_of_both([self.before_s, self.after_s])
        times = f"{before.removesuffix(' s')} → {after}"
        # Users with other values than the assumed ones gain another factor.
        if self.assumed:
            times += f" (from {', '.join(self.assumed)})"
        gain = _factor_text(self.factor, self.is_at_least)
        text = f"{self.operation.occasion}: {self.change}, {gain} faster, {times}."
        price = []
        if self.command is not None:
            price.append(f"`{self.command}`" if self.command else "Several commands")
        if self.downtime:
            price.append(self.downtime)
        if self.work:
            price.append(self.work.text)
        if price:
            sentence = ", ".join(price)
            text += f" {sentence[0].upper()}{sentence[1:]}."
        if self.condition:
            text += f" Only if {self.condition}."
        if self.slower:
            text += f" Slower: {enumeration(self.slower)}."
        return text


def find_wishes(
    advice: Advice, values_now: AxisValues, work: WorkOfChange, system: System = SUBVERSION
) -> list[Wish]:
    """Return the changes that make an operation of the user faster, the largest gain first.

    Each command with a state of caches, such as the cold log, has its best change and, if this change has a
    condition, the best change without one. `values_now` has the values of the user's repository: `{"format":
    "as-is", "packing": "pack"}`. Changes on other axes, such as the settings of the server, start from the
    value that most users have (Card.reference).
    """
    by_operation: dict[tuple[str, str], list[Wish]] = {}
    for card in advice.cards:
        # A cost, such as the cost of https, is no reason to change. An answer over all cells, such as that on
        # builds, is about no single operation.
        if card.question.is_cost or card.question.aggregate:
            continue
        for wish in _wishes_of_card(card, values_now, work, system):
            # The key has no access: over http, svn and file, the wishes are nearly the same.
            key = (wish.operation.command, wish.operation.cache)
            by_operation.setdefault(key, []).append(wish)
    chosen = [wish for wishes in by_operation.values() for wish in _best_wishes(wishes)]
    return sorted(chosen, key=lambda wish: -wish.factor)


def _best_wishes(wishes: Sequence[Wish]) -> list[Wish]:
    """Return the change with the largest gain for one command with one state of caches.

    If that change has a condition, such as a stop of commits, the best change without a condition follows,
    if there is one. There is at least one wish.
    """
    # The largest factors are those over file, which has no connection. But few users work on the server's
    # own files, so these wishes count only if there are no others.
    over_server = [wish for wish in wishes if wish.operation.access not in WITHOUT_SERVER]
    candidates = sorted(over_server or wishes, key=lambda wish: -wish.factor)
    best = candidates[0]
    unconditional = [wish for wish in candidates if not wish.condition]
    return [best, *unconditional[:1]] if best.condition else [best]


def _wishes_of_card(
    card: Card, values_now: AxisValues, work: WorkOfChange, system: System
) -> Iterator[Wish]:
    """Yield a wish for each operation that a change of the card's axis makes faster by the margin.

    Example: the card on packing, for a user whose repository is not packed, yields `First log of the morning
    over svn (cold): packed, 1.7x faster, 1.57 → 0.93 s`. `values_now` has the user's known values. Yield
    nothing if the value before the change is unknown, and none can be assumed (_value_before_change).
    """
    axis = card.question.axis
    value_before = _value_before_change(card, values_now)
    if not value_before:
        return
    values_before = {**values_now, axis: value_before}
    is_assumed = axis not in values_now
    assumed_labels = [labels.value_label(axis, value_before)] if is_assumed else []
    # The axes on which the cases differ, and the user's value is unknown.
    unknown_axes = [name for name in card.shown if name not in values_now]
    values = dict.fromkeys(value for case in card.cases for value in case.times)
    for value in values:
        if value == value_before:
            continue
        # A factor is at least 1, whether the case becomes faster or slower.
        all_outcomes = steps.find_outcomes(card, value, [values_before])
        outcomes = [outcome for outcome in all_outcomes if outcome.factor >= card.margin]
        # The change applies to the whole repository, so each of its wishes lists all slower operations.
        slower = _label_slower(outcomes, unknown_axes)
        action = card.question.actions.get(value, CardAction())
        for outcome in outcomes:
            where = outcome.where
            command = where.get(COMMAND_AXIS, "")
            # A study of trees has methods in place of commands. Nobody waits for the commands of svnbench,
            # such as null-log.
            is_operation = bool(command) and not is_benchmark(where)
            if outcome.effect is not Call.FASTER or not is_operation:
                continue
            if outcome.before_s is None or outcome.after_s is None:
                continue
            access = where.get(ACCESS_AXIS, "")
            server = _server_of(access, system)
            yield Wish(
                operation=Operation(command, where.get(CACHE_AXIS, ""), access, server),
                question=card.question.name or axis,
                change=labels.value_label(axis, value),
                factor=outcome.factor,
                is_at_least=outcome.is_at_least,
                before_s=outcome.before_s,
                after_s=outcome.after_s,
                assumed=[*assumed_labels, *labels.label_details(where, unknown_axes)],
                command=_only_command(action, server),
                condition=action.condition,
                downtime=action.downtime,
                work=work_of_change(axis, value, work),
                slower=slower,
            )


def _value_before_change(card: Card, values_now: AxisValues) -> str:
    """Return the user's value of the card's axis, or the value that most users have (Card.reference).

    The latter is for an axis whose value the repository does not show, such as the settings of its server.
    """
    # A user may have several accesses, so none is assumed.
    assumed_value = "" if card.question.axis == ACCESS_AXIS else card.reference
    return values_now.get(card.question.axis, assumed_value)


def _label_slower(outcomes: Sequence[steps.Outcome], shown: Sequence[str]) -> list[str]:
    """Return the labels of the slower cases, with their values of the axes `shown` and the factors.

    Example: `cold export over svn (1.3x)`.
    """
    slower = []
    for outcome in outcomes:
        if outcome.effect is Call.SLOWER:
            label = labels.case_label(outcome.where, [ACCESS_AXIS, *shown])
            slower.append(f"{label} ({_factor_text(outcome.factor, outcome.is_at_least)})")
    return slower


def _factor_text(factor: float, is_at_least: bool) -> str:
    """Return `1.7x`, or `at least 4.8x` if start-up hides a part of the effect."""
    text = labels.factor(factor)
    return f"at least {text}" if is_at_least else text


def _server_of(access: str, system: System) -> str:
    """Return the kind of a system's server for an access; "" for the files themselves."""
    facts = system.accesses.get(access)
    return facts["server"] if facts else ""


def _only_command(action: CardAction, server: str) -> str | None:
    """Return the command that applies a value for a server, such as `svnadmin pack REPO`.

    Return "" with several commands, or if the command has several lines, and None without a command.
    """
    # Some steps concern one server only: httpd for a case over http. A step with "" concerns all of them.
    commands = [step.command for step in action.steps if step.server in ("", server)]
    if not commands:
        return None
    is_one_line = len(commands) == 1 and "\n" not in commands[0]
    return commands[0] if is_one_line else ""


def work_of_change(axis: str, value: str, work: WorkOfChange) -> MeasuredWork | None:
    """Return the time of a change; None if it is unknown or short."""
    # Another format takes the time of a load. An upgrade in place takes seconds.
    if axis == FORMAT_AXIS:
        form = parse_format(value)
        if form.is_as_is or form.is_upgraded:
            return None
    return work.get((axis, value)) or work.get((axis, ANY))
