"""The states of caches: a new one is one entry, and everything that names states takes it from there."""

import pytest

from unit.study_grid import study_environment
from vcsbench.advice.case_groups import group_of_case
from vcsbench.advice.labels import case_label, group_label, value_label
from vcsbench.axes import axis_of
from vcsbench.axes.cache_states import STATES, CacheState, cache_state, pictograms, warmest_first
from vcsbench.plan.grid import fixed_cost_points

STUDY = "fsfs-san-2014"
DRAFT = {"access": {"server": "svnserve"}, "storage": {"path": "/proc"}}
# The key `filesystem` of a recipe.
IN_MEMORY = {"filesystem": {"make": "tmpfs", "root": "/srv"}}
IN_GUEST = {"filesystem": {"make": "", "root": "/home", "guest": "nfs"}}


@pytest.fixture
def frozen(monkeypatch):
    """Add a state that is colder than cold."""
    steps = {**STATES["cold"].steps, "promises": {"os": "cold", "server": "new"}}
    monkeypatch.setitem(STATES, "frozen", CacheState(steps, "▫"))


@pytest.mark.usefixtures("frozen")
def test_new_cache_state_is_named_in_tables_cards_and_headings():
    assert value_label("cache", "frozen") == "frozen"
    assert pictograms()["frozen"] == "▫"
    where = {"command": "log", "access": "svn", "cache": "frozen"}
    assert group_label(group_of_case(where)) == "cold log"
    assert case_label(where, ["access"]) == "cold log over svn"


@pytest.mark.usefixtures("frozen")
def test_new_cache_state_has_recipes_and_fixed_cost():
    environment = study_environment(STUDY)
    assert axis_of("cache").why_invalid("frozen") == ""
    assert axis_of("cache").recipe_keys("frozen", environment)["state"]["promises"]["os"] == "cold"
    axes = {"command": "log", "access": "svn", "repo": "ruby", "cache": "cold"}
    study = environment.config.studies[STUDY]
    (point,) = fixed_cost_points(study, [axes], ["frozen"], lambda axes: "")
    assert (point["repo"], point["cache"]) == ("empty", "frozen")


@pytest.mark.parametrize(
    ("cache", "filesystem", "reason"),
    [
        # A hot run may have its files in memory, and only cannot begin from a known state.
        ("hot", IN_MEMORY, "caches cannot be cleared here"),
        ("hot", IN_GUEST, "caches cannot be cleared here"),
        ("cold", IN_MEMORY, "files there are in memory"),
        ("cold", IN_GUEST, "vcsbench cannot clear the page cache of a guest"),
        ("cold", {}, "caches cannot be cleared here"),
    ],
)
def test_why_not_without_means_of_clearing_has_the_reason_of_the_state(
    monkeypatch, cache, filesystem, reason
):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    monkeypatch.setenv("PATH", "")
    draft = {**DRAFT, "state": STATES[cache].steps, **filesystem}
    assert axis_of("cache").why_not(cache, draft, study_environment(STUDY)).startswith(reason)


def test_warmest_first_sorts_states_and_drops_others():
    warmest = ["hot-server", "hot", "hot-os", "cold"]
    assert warmest_first(["cold", "warm", "hot-os", "hot-server", "hot"]) == warmest


@pytest.mark.parametrize(
    ("cache", "is_cold", "is_hot", "keeps_server"),
    [
        ("cold", True, False, False),
        ("hot-os", False, True, False),
        ("hot-server", False, True, True),
        ("hot", False, True, True),
        (None, False, False, False),
        ("of a published study", False, False, False),
    ],
)
def test_cache_state_has_its_promises(cache, is_cold, is_hot, keeps_server):
    state = cache_state(cache)
    assert (state.is_cold, state.is_hot, state.keeps_server) == (is_cold, is_hot, keeps_server)
