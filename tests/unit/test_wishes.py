"""The wishes of a user: which change makes an operation faster most, and what it takes."""

from dataclasses import replace

import pytest

from unit.test_steps import AT_LEAST, BETTER, EXPORT, LOG, WORSE, card
from vcsbench.advice.cards import Advice
from vcsbench.advice.decision import Case
from vcsbench.advice.questions import CardAction, CardQuestion
from vcsbench.advice.server_actions import ActionStep
from vcsbench.advice.wishes import ANY, MeasuredWork, find_wishes
from vcsbench.systems import GIT

CURRENT = {"format": "as-is", "packing": "nopack"}
AMOUNT = "20,000 revisions"
WORK = {
    ("packing", "pack"): MeasuredWork(4.2, AMOUNT, False),
    ("format", ANY): MeasuredWork(41.0, AMOUNT, True),
}
PACK = CardAction([ActionStep("svnadmin pack REPO")], downtime="no downtime")
LOAD = CardAction([ActionStep("a\nb")], condition="you can stop commits", downtime="a stop")
COLD_LOG = {**LOG, "access": "svn"}
WARM_LOG = {"command": "log", "cache": "hot-server", "access": "svn"}


def packing(*results):
    return with_action(card("packing", ("nopack", "pack"), results), "pack", PACK)


def loading(*results):
    return with_action(card("format", ("as-is", "f8"), results), "f8", LOAD)


def with_action(made, value, action):
    question = CardQuestion(made.question.axis, made.question.text, actions={value: action})
    return type(made)(question, made.reference, (), made.cases)


def wishes(*cards):
    return find_wishes(Advice(cards), CURRENT, WORK)


def test_find_wishes_sorts_operations_by_gain_with_command_downtime_and_work():
    found = wishes(packing((WARM_LOG, BETTER, 1.2), (COLD_LOG, BETTER, 1.7)))
    assert [(w.question, w.factor, w.before_s, w.after_s) for w in found] == [
        ("packing", 1.7, 1.7, 1.0),
        ("packing", 1.2, 1.2, 1.0),
    ]
    assert found[0].text == (
        "First log of the morning over svn (cold): packed, 1.7x faster, 1.70 → 1.00 s. "
        "`svnadmin pack REPO`, no downtime, 4 s for 20,000 revisions."
    )
    assert found[1].operation.occasion == "Repeated log over svn (server cache warm)"


@pytest.mark.parametrize("kind", [{"is_cost": True}, {"aggregate": True}])
def test_find_wishes_leaves_out_costs_and_answers_over_all_cells(kind):
    made = packing((COLD_LOG, BETTER, 1.7))
    assert [wish.question for wish in wishes(made)] == ["packing"]
    assert wishes(replace(made, question=CardQuestion("packing", "?", **kind))) == []


def test_find_wishes_starts_from_the_baseline_of_an_axis_without_a_known_value():
    made = card("config", ("default", "cache-256"), [(WARM_LOG, BETTER, 1.7)])
    (wish,) = wishes(made)
    assert (wish.question, wish.assumed, wish.command) == ("config", ["default settings"], None)
    assert wish.text == (
        "Repeated log over svn (server cache warm): 256 MiB cache, 1.7x faster, "
        "1.70 → 1.00 s (from default settings)."
    )


def test_find_wishes_names_the_assumed_values_of_other_axes():
    packed_log = {**WARM_LOG, "packing": "pack"}
    made = card("config", ("default", "cache-256"), [(packed_log, BETTER, 1.7)])
    advice = Advice([replace(made, shown=["command", "packing"])])
    (unknown,) = find_wishes(advice, {}, {})
    assert unknown.assumed == ["default settings", "packed"]
    (known,) = find_wishes(advice, {"config": "default", "packing": "pack"}, {})
    assert known.assumed == [] and "(from" not in known.text


@pytest.mark.parametrize("access", ["git", "http", "ssh"])
def test_wish_for_a_git_repository_has_its_command_and_no_restart_of_a_server(access):
    clone = {"command": "clone", "cache": "hot-os", "access": access}
    made = card("upkeep", ("as-is", "bitmap"), [(clone, BETTER, 1.7)])
    repack = CardAction([ActionStep("git repack -a -d --write-bitmap-index")])
    advice = Advice([with_action(made, "bitmap", repack)])
    (wish,) = find_wishes(advice, {"upkeep": "as-is"}, {}, GIT)
    assert wish.operation.occasion == f"Repeated bare clone over {access} (OS cache warm)"
    assert (wish.command, wish.assumed) == (repack.steps[0].command, [])


@pytest.mark.parametrize(
    ("access", "start"),
    [
        ("http", "First log after a restart of the server over http"),
        ("svn", "First log after a restart of the server over svn"),
        # Each connection has an svnserve of its own.
        ("svn+ssh", "Repeated log over svn+ssh"),
        ("file", "Repeated log over file"),
    ],
)
def test_wish_names_a_restart_of_a_server_that_keeps_caches(access, start):
    log = {"command": "log", "cache": "hot-os", "access": access}
    (wish,) = wishes(packing((log, BETTER, 1.7)))
    assert wish.operation.occasion == f"{start} (OS cache warm)"


@pytest.mark.parametrize(
    ("of_packing", "of_load", "axes"),
    [
        # A change without an interruption is enough.
        (2.0, 1.5, ["packing"]),
        # The larger gain interrupts the service.
        (1.5, 2.0, ["format", "packing"]),
        (None, 2.0, ["format"]),
        # Below the smallest effect worth noting.
        (1.05, None, []),
    ],
)
def test_find_wishes_takes_the_largest_gain_with_and_without_an_interruption(
    of_packing, of_load, axes
):
    cards = []
    if of_packing:
        cards.append(packing((COLD_LOG, BETTER, of_packing)))
    if of_load:
        cards.append(loading((COLD_LOG, BETTER, of_load)))
    found = wishes(*cards)
    assert [wish.question for wish in found] == axes
    for wish in found:
        # Without a name of its own, a question has that of its axis.
        axis = wish.question
        assert bool(wish.command) == (axis == "packing")
        assert wish.work == WORK[axis, {"packing": "pack", "format": ANY}[axis]]


@pytest.mark.parametrize(
    ("factors", "access"),
    [
        ({"svn": 1.5, "http": 1.3}, "svn"),
        ({"svn": 1.3, "file": 2.0}, "svn"),
        ({"file": 2.0}, "file"),
    ],
)
def test_find_wishes_takes_the_access_with_the_largest_gain_with_a_server(factors, access):
    results = [({**LOG, "access": name}, BETTER, factor) for name, factor in factors.items()]
    (wish,) = wishes(packing(*results))
    assert (wish.operation.access, wish.factor) == (access, factors[access])


def test_wish_names_the_condition_of_a_change():
    (loaded,) = wishes(loading((COLD_LOG, BETTER, 2.0)))
    assert loaded.text.endswith(" Only if you can stop commits.")
    (packed,) = wishes(packing((COLD_LOG, BETTER, 2.0)))
    assert "Only if" not in packed.text


def test_find_wishes_names_operations_that_become_slower():
    (wish,) = wishes(packing((COLD_LOG, BETTER, 1.7), ({**EXPORT, "access": "svn"}, WORSE, 0.5)))
    assert wish.slower == ["cold export over svn (2.0x)"]


def test_find_wishes_has_the_least_factor_if_start_up_hides_a_part():
    logs = Case(COLD_LOG, (AT_LEAST,), {"nopack": 6.4, "pack": 1.0})
    (wish,) = wishes(replace(packing(), cases=[logs]))
    assert wish.factor == pytest.approx(4.8)
    assert "packed, at least 4.8x faster, 6.40 → 1.00 s." in wish.text
    exports = Case(
        {**EXPORT, "access": "svn"},
        (replace(AT_LEAST, ratio=1 / 6.4, low=1 / 8.5, high=1 / 4.8, call=WORSE),),
        {"nopack": 1.0, "pack": 6.4},
    )
    (wish,) = wishes(replace(packing(), cases=[logs, exports]))
    assert wish.slower == ["cold export over svn (at least 4.8x)"]


@pytest.mark.parametrize(
    ("axis", "sides", "where"),
    [
        # Users may have several accesses.
        ("access", ("svn", "http"), LOG),
        # It has a method in place of a command.
        ("packing", ("nopack", "pack"), {"cache": "cold"}),
        # Nobody runs svnbench at work.
        ("packing", ("nopack", "pack"), {**LOG, "command": "null-log"}),
        # It is about another repository than the user has.
        ("packing", ("nopack", "pack"), {**LOG, "format": "f7"}),
    ],
)
def test_find_wishes_leaves_out_what_a_user_does_not_do(axis, sides, where):
    assert wishes(card(axis, sides, [(where, BETTER, 3.0)])) == []


def test_find_wishes_takes_the_command_of_the_server_of_the_access():
    steps = [
        ActionStep("svnserve -M 256", "svnserve"),
        ActionStep("SVNInMemoryCacheSize 262144", "httpd"),
        ActionStep("SVNCacheRevProps on", "httpd"),
    ]
    made = card("packing", ("nopack", "pack"), [(COLD_LOG, BETTER, 2.0)])
    http = card("packing", ("nopack", "pack"), [({**LOG, "access": "http"}, BETTER, 2.0)])
    (of_svn,) = wishes(with_action(made, "pack", CardAction(steps)))
    (of_http,) = wishes(with_action(http, "pack", CardAction(steps)))
    assert (of_svn.command, of_http.command) == ("svnserve -M 256", "")
