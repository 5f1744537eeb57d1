"""What the documentation says of a default run and of the commands agrees with itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from vcsbench.config.study import load_study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DURATION = re.compile(
    r"\b(?:\d+|some|an?)\s+(?:\w+\s+of\s+an\s+)?(?:minutes?|hours?)\b|quarter of an\s+hour"
)


def test_how_long_a_default_run_takes_is_what_the_configuration_says() -> None:
    text = (ROOT / "config" / "config.yaml").read_text()
    comments = " ".join(line for line in text.splitlines() if line.startswith("#"))
    assert not DURATION.search(comments)
    readme = (ROOT / "README.md").read_text().partition("## Your own repository")[0]
    said = re.findall(r"\d+ minutes", readme)
    minutes = yaml.safe_load(text)["minutes"]
    assert set(said) == {f"{number} minutes" for number in minutes.values()}


def test_what_is_logged_is_called_what_it_is() -> None:
    """The commands log the root of a repository, and not its trunk."""
    argv = load_study(ROOT / "config" / "studies" / "fsfs-san-2014.yaml").commands["log"]["argv"]
    assert argv.endswith(" {url}")
    for name in ("README.md", "config/README.md", "config/expectations.yaml"):
        text = (ROOT / name).read_text().lower()
        assert not re.search(r"log\s+of\s+trunk", text), name


def test_the_readme_is_short_and_the_documentation_has_a_table_of_contents() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
    contents = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([a-z-]+\.md)\)", contents))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [x for x in links if "://" not in x and not (page.parent / x).exists()] == []
