"""The page in a real browser: it draws its charts, asks for nothing, and fits a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from browser.driver import Visit, needs_chromium, visit

pytestmark = needs_chromium

# Says in the page's own tree whether it is wider than the window, with everything unfolded.
MEASURE = """<script>
document.querySelectorAll("details").forEach((details) => { details.open = true; });
setInterval(() => {
  document.documentElement.dataset.target = document.querySelector(":target")?.id ?? "";
  document.documentElement.dataset.toowide = document.documentElement.scrollWidth - innerWidth;
}, 50);
</script>"""


@pytest.fixture(scope="module")
def page(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of all tests here, which measures itself."""
    path = tmp_path_factory.mktemp("measured") / page.name
    path.write_text(page.read_text().replace("</body>\n</html>", f"{MEASURE}</body></html>"))
    return path


@pytest.fixture(scope="module")
def visited(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    return visit(page, tmp_path_factory.mktemp("desktop"))


def test_every_chart_is_drawn(visited: Visit) -> None:
    assert visited.root.get("data-charts") == "drawn"
    charts = visited.tree.all("figure", class_="chart")
    # Of three metrics, where the time goes, and three comparisons, each for two commands; what was
    # published, and drift.
    assert len(charts) == 16
    for chart in charts:
        assert len(chart.all("svg", class_="marks")) == 1
    log = visited.tree.by_id("chart-elapsed-log")
    rounds = [g for g in log.all("g") if "mark-symbol" in g.classes and "role-mark" in g.classes]
    assert sum(len(group.all("path")) for group in rounds) == 36 * 5


def test_no_script_fails(visited: Visit) -> None:
    assert visited.errors == []
    assert "data-error" not in visited.root


def test_nothing_is_asked_for_but_the_page(visited: Visit, page: Path) -> None:
    assert [url for url in visited.requests if url != page.as_uri()] == []


def test_a_finding_leads_to_the_row_of_its_table(
    visited: Visit, page: Path, tmp_path: Path
) -> None:
    link = visited.tree.by_id("finding-cold-packed-f7-log").all("a")[0].attributes["href"]
    seen = visit(page, tmp_path, anchor=link)
    row = seen.tree.by_id(seen.root["data-target"])
    assert (row.tag, f"#{row.attributes['id']}") == ("tr", link)
    assert row.all("th")[0].text == "pack"


def test_page_fits_a_desktop(visited: Visit) -> None:
    assert int(visited.root["data-toowide"]) <= 0


@pytest.mark.slow
def test_page_fits_a_phone(page: Path, tmp_path: Path) -> None:
    phone = visit(page, tmp_path, width=420)
    assert int(phone.root["data-toowide"]) <= 0
    for svg in phone.tree.all("svg", class_="marks"):
        assert float(svg.attributes["width"]) <= 420


@pytest.mark.slow
def test_a_page_that_asks_for_something_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html><body><img src='http://example.invalid/x.png'></body></html>")
    assert "http://example.invalid/x.png" in visit(page, tmp_path).requests


@pytest.mark.slow
def test_a_chart_that_cannot_be_drawn_says_so(page: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(
        re.sub(r'"layer": \[', '"layer": [{"mark": "none"}, ', page.read_text(), count=1)
    )
    seen = visit(broken, tmp_path)
    drawings = [
        figure.all("div", class_="drawing")[0] for figure in seen.tree.all("figure", class_="chart")
    ]
    assert drawings[0].text.startswith("This chart could not be drawn: ")
    assert drawings[1].all("svg")
    assert "data-error" in seen.root
