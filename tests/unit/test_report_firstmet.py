"""The words of tables: each is explained in the first table that has it, and there in the first heading."""

from __future__ import annotations

import pytest

from unit.html_tree import Element, parse
from unit.report_files import default_grid, make_files, write_page
from vcsbench.config.glossary import Glossary
from vcsbench.report.firstmet import FirstMet


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Element:
    made = make_files(tmp_path_factory.mktemp("words"), rounds=2, skip=default_grid)
    return parse(write_page(made).read_text()).by_id("tables")


def test_each_word_is_explained_once_in_the_first_table_that_has_it(tables: Element) -> None:
    listed = [
        (section.attributes["id"], [term.text for term in section.all("dt")])
        for section in tables.all("section", class_="table")
    ]
    first = listed[0][1]
    assert {"ra", "http", "cold", "hot-os", "hot-svn", "f6", "f7", "nopack", "pack"} <= {*first}
    assert {"ruby", "slow", "fast", "log"} <= {*first}
    every = [word for _, words in listed for word in words]
    assert len(every) == len(set(every))


def test_a_heading_carries_its_meaning_where_it_is_first_met(tables: Element) -> None:
    marked = {abbr.text: abbr.attributes["title"] for abbr in tables.all("abbr")}
    assert len(marked) == len(tables.all("abbr"))
    assert marked["f6"] == "FSFS format 6, of Subversion 1.8"
    assert "`" not in "".join(marked.values())
    assert {"http", "cold", "f7", "pack", "fast"} <= marked.keys()


def test_a_word_is_of_its_axis_and_text_stays_text() -> None:
    met = FirstMet(Glossary({"clients": {"1": 'one "client"'}, "a": {"<": "less"}}, {}))
    assert met.marked_up("ra", "1") == "1"
    assert met.marked_up("clients", "1") == '<abbr title="one &quot;client&quot;">1</abbr>'
    assert met.marked_up("clients", "1") == "1"
    assert met.marked_up("a", "<") == '<abbr title="less">&lt;</abbr>'
