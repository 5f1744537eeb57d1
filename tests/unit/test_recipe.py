"""What makes a cell stale: the modules that run for it, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vcsbench import modules
from vcsbench.run.dependencies import code_of

CELLS: dict[str, dict[str, Any]] = {
    "log over svn": {"work": "log", "reads": "repository", "writes": "", "server": "svnserve"},
    "log over file": {"work": "log", "reads": "repository", "writes": "", "server": ""},
    "export over http": {
        "work": "tree",
        "reads": "repository",
        "writes": "target",
        "server": "httpd",
    },
}
ALL = set(CELLS)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package to edit, of which digests are taken."""
    copy = tmp_path / "workflow" / "vcsbench"
    shutil.copytree(modules.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(modules, "PACKAGE", copy)
    yield copy
    forget()


def forget() -> None:
    """Have the modules looked at anew."""
    for cached in vars(modules).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def digests() -> dict[str, str]:
    forget()
    return {name: modules.cell_code(cell) for name, cell in CELLS.items()}


@pytest.mark.parametrize(
    ("file", "stale"),
    [
        ("measure/cell.py", ALL),
        ("measure/hooks.sh", ALL),
        ("measure/meters/residency.py", ALL),
        ("evidence/judgement.py", ALL),
        ("evidence/hyperfine_export.py", ALL),
        ("subjects/repository/labels.py", ALL),
        ("storages/place.py", ALL),
        ("measure/work/log.py", {"log over svn", "log over file"}),
        ("measure/work/tree.py", {"export over http"}),
        ("measure/work/dump.py", set()),
        ("measure/servers/svnserve.py", {"log over svn"}),
        ("measure/servers/httpd.conf", {"export over http"}),
        ("subjects/target.py", {"export over http"}),
        ("axes/cache.py", set()),  # what an axis says stands in the recipe itself
        ("subjects/repository/making.py", set()),
        ("compare/tables.py", set()),
        ("report/page.py", set()),
    ],
)
def test_an_edit_makes_stale_what_it_runs_for(package: Path, file: str, stale: set[str]) -> None:
    before = digests()
    with (package / file).open("a") as edited:
        edited.write("\n# edited\n")
    after = digests()
    assert {name for name in CELLS if after[name] != before[name]} == stale


@pytest.mark.parametrize(
    "file", ["measure/work/new.py", "measure/meters/new.py", "subjects/new.py"]
)
def test_what_is_new_makes_nothing_stale(package: Path, file: str) -> None:
    before = digests()
    (package / file).write_text('"""New."""\n')
    assert digests() == before


def test_a_rule_depends_on_all_that_its_script_may_import_by_name() -> None:
    files = code_of("report")
    for needed in ("axes/ra.py", "metrics.py", "compare/columns.py", "plan/twins.py"):
        assert f"workflow/vcsbench/{needed}" in files
    assert not [file for file in files if "/sources/git/" in file]
