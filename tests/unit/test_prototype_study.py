"""The prototype study: axes of some cells only, runs against one server, two builds, published counts."""

import pandas as pd
import pytest

from project import ROOT
from unit.study_grid import published_table, study_grid
from vcsbench.axes import axis_of
from vcsbench.axes.server_axes import cache_bytes
from vcsbench.errors import UserError
from vcsbench.measure.work import UrlNormaliser, inspect_trees
from vcsbench.plan.recipe import draft_recipe

STUDY = "server-prototype-2010"


def test_build_without_definition_is_refused():
    part = {"command": "verify", "repo": "kde", "build": ["trunk", "prototype"]}
    here, cells = study_grid(STUDY, part)
    study = here.config.studies[STUDY]
    assert draft_recipe(study, cells[0].axes, here)["build"]["name"] == "trunk"  # from the PATH
    other = next(cell for cell in cells if cell.axes["build"] == "prototype")
    with pytest.raises(UserError, match=r"`builds\.prototype` is missing"):
        draft_recipe(study, other.axes, here)


def test_inspect_trees_compares_trees_of_clients(tmp_path):
    for client in ("1", "2"):
        (tmp_path / client).mkdir()
        (tmp_path / client / "file").write_text("same")
    assert inspect_trees(tmp_path, UrlNormaliser(""))["files"] == 1
    (tmp_path / "2" / "file").write_text("other")
    assert inspect_trees(tmp_path, UrlNormaliser("")) == {"different_trees": 2}


def test_published_counts_are_in_the_table():
    numbers = pd.read_csv(ROOT / "config/published/server-prototype-2010-io.csv")
    values = published_table(STUDY, "io").set_index(["command", "repo", "build", "count"])["value"]
    for row in numbers.to_dict("records"):
        for name in ("opens_read_only", "opens_read_write", "seeks", "bytes_read", "reads"):
            key = (row["command"], row["repo"], row["build"], name)
            assert (key in values.index) == pd.notna(row[name])
            assert pd.isna(row[name]) or values[key] == row[name]


def test_published_throughput_is_by_run_and_clients():
    runs = published_table(STUDY, "throughput")
    runs = runs.set_index(["repo", "wire_compression", "run"])["value"]
    assert runs["kde", "off", "3"] == 148 and runs["kde", "on", "1"] == 12.2
    many = published_table(STUDY, "throughput-by-clients")
    many = many.set_index(["clients", "wire_compression"])["value"]
    assert many.to_dict() == {("many", "off"): 800.0, ("many", "on"): 120.0}


@pytest.mark.parametrize("axis", ["clients", "wire_compression"])
@pytest.mark.parametrize("value", ["\u00b2", "1e3", "-1", "9" * 200])
def test_axis_of_numbers_refuses_other_text(axis, value):
    assert axis_of(axis).why_invalid(value)
    assert not axis_of(axis).why_invalid("4")


@pytest.mark.parametrize(("number", "expected"), [("16", [16]), ("9" * 5000, [])])
def test_cache_bytes_reads_numbers_that_a_server_can_have(number, expected):
    settings = {"svnserve": f"svnserve -M {number}", "httpd": f"SVNInMemoryCacheSize {number}"}
    units = {"svnserve": 1 << 20, "httpd": 1 << 10}
    for server, text in settings.items():
        assert cache_bytes(server, text) == [size * units[server] for size in expected]


@pytest.mark.parametrize(
    "option",
    [
        *("-M 512", "-M512", "--memory-cache-size 512", "--memory-cache-size=512"),
        *('"-M" "512"', "'-M512'", '--memory-cache-size="512"', "'--memory-cache-size=512'"),
    ],
)
def test_cache_bytes_of_svnserve_reads_each_spelling(option):
    assert cache_bytes("svnserve", f"svnserve -d -r ROOT {option} --threads") == [512 << 20]


@pytest.mark.parametrize("name", ["SVNInMemoryCacheSize", "svninmemorycachesize"])
@pytest.mark.parametrize("size", ["512", '"512"', "'512'"])
def test_cache_bytes_of_httpd_reads_each_spelling(name, size):
    assert cache_bytes("httpd", f"SVNCacheRevProps on\n{name} {size}") == [512 << 10]


@pytest.mark.parametrize("option", ["--max-M 512", "-M 512x", "--memory-cache-sizes 512"])
def test_cache_bytes_of_other_options_is_the_default(option):
    assert cache_bytes("svnserve", f"svnserve -d -r ROOT {option}") == []
