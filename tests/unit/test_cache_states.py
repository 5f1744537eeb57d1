"""The states of caches: a new one is one entry, and everything that names states takes it from there."""

import pytest

from unit.study_grid import study_environment
from vcsbench.advice.labels import case_label, group_label, value_label
from vcsbench.axes import axis_of
from vcsbench.axes.cache_states import STATES, CacheState, cache_state, pictograms, warmest_first
from vcsbench.plan.grid import fixed_cost_points

STUDY = "fsfs-san-2014"


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
    assert group_label(where) == "cold log"
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


def test_warmest_first_follows_the_table():
    assert warmest_first(["cold", "hot-os", "hot-server", "hot"]) == [
        "hot-server",
        "hot",
        "hot-os",
        "cold",
    ]
    assert warmest_first(["warm"]) == []


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
