"""The README's "to add a ..." recipes hold: each addition is made in its one place, and is measured."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from project import Project, needs

pytestmark = needs("svn", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}
PART = {
    "command": "log",
    "ra": "svn",
    "format": "f7",
    "packing": "nopack",
    "config": "slow",
    "cache": "hot-os",
}


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that a file has once."""
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


def measured(project: Project, part: dict[str, str], **keys: object) -> list[str]:
    """Measure a part of the grid; returns the cells that have a result."""
    grid = {STUDY: {"include": [{**PART, **part}]}}
    project.configure(**{"repositories": SMALL, "rounds": 1, "copies": 1, "grid": grid, **keys})
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return [str(Path(path).parent) for path in project.exports()]


def study_file(project: Project) -> Path:
    return project.path / "config" / "studies" / f"{STUDY}.yaml"


def test_a_command(project: Project) -> None:
    path = study_file(project)
    edit(path, "  command: [log,", "  command: [list, log,")
    entry = 'commands:\n  list:\n    argv: "{svn} list -R {url}"\n    work: text\n'
    edit(path, "commands:\n", entry)
    cell = f"{STUDY}/list/svn/ruby/f7/nopack/slow/hot-os"
    assert measured(project, {"command": "list"}) == [cell]
    context = project.path / "results" / "cells" / cell / "round1.context.json"
    listed = subprocess.run(
        ["svn", "list", "-R", "file://" + json.loads(context.read_text())["repository"]["path"]],
        capture_output=True,
        check=True,
    ).stdout
    did = json.loads(context.read_text())["runs"][0]["work"]
    assert did["lines"] == listed.count(b"\n") > 10 and did["bytes"] == len(listed)


def test_a_server_configuration(project: Project) -> None:
    servers = project.path / "config" / "servers"
    shutil.copytree(servers / "slow", servers / "tiny-cache")
    (servers / "tiny-cache" / "svnserve.args").write_text("--threads --memory-cache-size 1\n")
    assert measured(project, {"config": "tiny-cache"})


def test_a_protocol(project: Project) -> None:
    access = project.path / "workflow" / "vcsbench" / "measure" / "access.py"
    entry = '    "svn-again": Access("svn", ("svnserve.args", "client"), "svnserve", _svnserve),\n'
    edit(access, "ACCESS = {\n", "ACCESS = {\n" + entry)
    edit(study_file(project), "  ra: [http,", "  ra: [svn-again, http,")
    assert measured(project, {"ra": "svn-again"})


def test_a_build(project: Project) -> None:
    folder = project.path / "mine" / "bin"
    folder.mkdir(parents=True)
    for name in ("svn", "svnserve"):
        (folder / name).symlink_to(str(shutil.which(name)))
    cells = measured(
        project,
        {},
        studies=["builds"],
        builds={"system": {}, "mine": {"prefix": "mine"}},
        grid={"builds": {"include": [PART]}},
    )
    path = "builds/log/svn/ruby/f7/nopack/slow/hot-os"
    assert sorted(cells) == [f"{path}/mine", f"{path}/system"]


def test_a_cache_state(project: Project) -> None:
    states = project.path / "workflow" / "vcsbench" / "measure" / "states.py"
    entry = '    "once": CacheState(setup=("start-server",), prepare=(), warmup=1),\n'
    edit(states, "STATES = {\n", "STATES = {\n" + entry)
    edit(study_file(project), "  cache: [cold,", "  cache: [once, cold,")
    assert measured(project, {"cache": "once"})


def test_a_repository_source(project: Project) -> None:
    folder = project.path / "workflow" / "vcsbench" / "sources"
    (folder / "halved.py").write_text(
        '''"""A generated history of half the scale."""

from vcsbench.sources.generated import GeneratedSource


class HalvedSource(GeneratedSource):
    kind = "halved"

    def __init__(self, name, definition, where):
        super().__init__(name, {**definition, "scale": definition["scale"] / 2}, where)
'''
    )
    edit(
        folder / "__init__.py",
        '    "git": GitSource,\n',
        '    "git": GitSource,\n    "halved": HalvedSource,\n',
    )
    edit(
        folder / "__init__.py",
        "from vcsbench.sources.generated import",
        "from vcsbench.sources.halved import HalvedSource\nfrom vcsbench.sources.generated import",
    )
    schema = project.path / "workflow" / "schemas" / "config.schema.yaml"
    edit(schema, "enum: [generated, git,", "enum: [halved, generated, git,")
    definition = {"source": "halved", "profile": "ruby", "scale": 0.001, "seed": 1}
    cells = measured(project, {"repo": "half"}, repositories={"half": definition})
    assert cells == [f"{STUDY}/log/svn/half/f7/nopack/slow/hot-os"]


def test_a_table(project: Project) -> None:
    table = {
        "compare": {"axis": "config", "baseline": "slow", "candidates": ["medium"]},
        "rows": ["ra", "repo", "packing", "format"],
        "columns": ["cache"],
        "published": False,
    }
    edit(
        study_file(project),
        "tables:\n",
        f"tables:\n  slow-vs-medium: {yaml.safe_dump(table, default_flow_style=True)}",
    )
    measured(project, {"config": ["slow", "medium"]})  # type: ignore[dict-item]
    with (project.path / "results" / "tables" / STUDY / "slow-vs-medium.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["baseline"], row["candidate"]) for row in rows] == [("slow", "medium")]
    assert "slow-vs-medium" in (project.path / "reports" / f"{STUDY}.html").read_text()


@pytest.mark.parametrize("published", [False, True])
def test_a_study(project: Project, published: bool) -> None:
    study = yaml.safe_load(study_file(project).read_text())
    study["title"] = "Another study"
    if not published:
        del study["published"]
    (study_file(project).parent / "another.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    grid = {"another": {"include": [PART]}}
    cells = measured(project, {}, studies=["another"], grid=grid)
    assert cells == ["another/log/svn/ruby/f7/nopack/slow/hot-os"]
    assert "Another study" in (project.path / "reports" / "another.html").read_text()
