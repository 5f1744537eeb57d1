"""The README's "to add a ..." recipes hold: each addition is made in its one place, and is measured.

The tests make their additions in one project, one after the other, and a report has them all at last."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import Project, measurements_of, needs

pytestmark = needs("svn", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
SMALL = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0005, "seed": 1}}
PART = {
    "command": "log",
    "ra": "svn",
    "repo": "ruby",
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


class Extended:
    """A project with the additions so far, and the grid's parts and the repositories that have them."""

    def __init__(self, project: Project) -> None:
        self.path = project.path
        self.project = project
        self.parts: list[dict[str, Any]] = []
        self.repositories: dict[str, Any] = dict(SMALL)

    def run(self, *targets: str, **keys: Any) -> list[str]:
        """Run the workflow; returns the cells that have got a result."""
        before = self.project.exports()
        self.project.configure(**{"rounds": 1, "copies": 1, **keys})
        done = self.project.snakemake(*targets)
        assert done.returncode == 0, done.stdout
        after = self.project.exports()
        return [str(Path(path).parent) for path, at in after.items() if before.get(path) != at]

    def measure(self, part: dict[str, Any], target: str = measurements_of(STUDY)) -> list[str]:
        """Measure a part of the grid; returns the cells that have got a result."""
        self.parts.append({**PART, **part})
        return self.run(target, repositories=self.repositories, grid=self.grid())

    def grid(self) -> dict[str, Any]:
        """The part of the grid that was measured last."""
        return {STUDY: {"include": self.parts[-1:]}}


@pytest.fixture(scope="module")
def project(shared_project: Project) -> Extended:
    return Extended(shared_project)


def study_file(project: Extended) -> Path:
    return project.path / "config" / "studies" / f"{STUDY}.yaml"


def test_a_command(project: Extended) -> None:
    path = study_file(project)
    edit(path, "  command: [log,", "  command: [list, log,")
    entry = 'commands:\n  list:\n    argv: "{svn} list -R {url}"\n    work: text\n'
    edit(path, "commands:\n", entry)
    cell = f"{STUDY}/list/svn/ruby/f7/nopack/slow/hot-os"
    assert project.measure({"command": "list"}) == [cell]
    context = project.path / "results" / "cells" / cell / "round1.context.json"
    listed = subprocess.run(
        ["svn", "list", "-R", "file://" + json.loads(context.read_text())["repository"]["path"]],
        capture_output=True,
        check=True,
    ).stdout
    did = json.loads(context.read_text())["runs"][0]["work"]
    assert did["lines"] == listed.count(b"\n") > 10 and did["bytes"] == len(listed)


def test_a_server_configuration(project: Extended) -> None:
    servers = project.path / "config" / "servers"
    shutil.copytree(servers / "slow", servers / "tiny-cache")
    (servers / "tiny-cache" / "svnserve.args").write_text("--threads --memory-cache-size 1\n")
    assert project.measure({"config": "tiny-cache"})


def test_a_protocol(project: Extended) -> None:
    access = project.path / "workflow" / "vcsbench" / "measure" / "access.py"
    entry = '    "svn-again": Access("svn", ("svnserve.args", "client"), "svnserve", _svnserve),\n'
    edit(access, "ACCESS = {\n", "ACCESS = {\n" + entry)
    edit(study_file(project), "  ra: [http,", "  ra: [svn-again, http,")
    assert project.measure({"ra": "svn-again"})


def test_a_build(project: Extended) -> None:
    folder = project.path / "mine" / "bin"
    folder.mkdir(parents=True)
    for name in ("svn", "svnserve"):
        (folder / name).symlink_to(str(shutil.which(name)))
    cells = project.run(
        measurements_of("builds"),
        repositories=SMALL,
        studies=["builds"],
        builds={"system": {}, "mine": {"prefix": "mine"}},
        grid={"builds": {"include": [PART]}},
    )
    path = "builds/log/svn/ruby/f7/nopack/slow/hot-os"
    assert sorted(cells) == [f"{path}/mine", f"{path}/system"]


def test_a_cache_state(project: Extended) -> None:
    states = project.path / "workflow" / "vcsbench" / "measure" / "states.py"
    entry = '    "once": CacheState(setup=("start-server",), prepare=(), warmup=1),\n'
    edit(states, "STATES = {\n", "STATES = {\n" + entry)
    edit(study_file(project), "  cache: [cold,", "  cache: [once, cold,")
    assert project.measure({"cache": "once"})


def test_a_repository_source(project: Extended) -> None:
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
    project.repositories["half"] = definition
    assert project.measure({"repo": "half"}) == [f"{STUDY}/log/svn/half/f7/nopack/slow/hot-os"]


def test_a_table(project: Extended) -> None:
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
    path = f"results/tables/{STUDY}/slow-vs-medium.csv"
    project.measure({"config": ["slow", "medium"]}, path)
    with (project.path / path).open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["baseline"], row["candidate"]) for row in rows] == [("slow", "medium")]


def test_a_metric(project: Extended) -> None:
    (project.path / "workflow" / "vcsbench" / "metrics" / "server_cpu.py").write_text(
        '''"""The CPU time of the server while a command runs."""

from vcsbench.metrics.metric import Metric

METRIC = Metric(
    name="server_cpu",
    title="Server CPU",
    unit="s",
    reading="The CPU time of the server in seconds, the median of the rounds.",
    quantity="server CPU",
    needs=("server_cpu_s",),
    parts={"server_cpu_s": lambda run: run["server_cpu_s"]},
    value=lambda part: part["server_cpu_s"],
)
'''
    )
    table = "rows: [ra, repo, packing, format], columns: [cache, config], published: false"
    compare = "{axis: format, baseline: f6, candidates: [f7], metric: server_cpu}"
    edit(
        study_file(project),
        "tables:\n",
        f"tables:\n  server-cpu: {{metric: server_cpu, {table}}}\n"
        f"  server-cpu-by-format: {{compare: {compare}, {table}}}\n",
    )
    paths = [
        f"results/tables/{STUDY}/{name}.csv" for name in ("server-cpu", "server-cpu-by-format")
    ]
    project.measure({"format": ["f6", "f7"]}, paths[0])
    project.run(paths[1], repositories=project.repositories, grid=project.grid())
    seconds, compared = (list(csv.DictReader((project.path / path).open())) for path in paths)
    assert [row["format"] for row in seconds] == ["f6", "f7"]
    f6, f7 = (float(row["value"]) for row in seconds)
    assert 0 < f6 < 10 and float(compared[0]["value"]) == pytest.approx(100 * (f6 / f7 - 1))


def test_studies_with_and_without_published_numbers(project: Extended) -> None:
    study = yaml.safe_load(study_file(project).read_text())
    study["tables"] = {name: study["tables"][name] for name in ("elapsed", "f6-vs-f7")}
    unpublished = {key: value for key, value in study.items() if key != "published"}
    titles = {"another": "Another study", "a-third": "A third study"}
    for (name, title), content in zip(titles.items(), (study, unpublished), strict=True):
        text = yaml.safe_dump({**content, "title": title}, sort_keys=False)
        (study_file(project).parent / f"{name}.yaml").write_text(text)
    grid = {name: {"include": [PART]} for name in titles}
    cells = project.run(studies=list(titles), repositories=SMALL, grid=grid)
    assert set(cells) == {f"{name}/log/svn/ruby/f7/nopack/slow/hot-os" for name in titles}
    for name, title in titles.items():
        assert title in (project.path / "reports" / f"{name}.html").read_text()


def test_a_report_has_what_was_added(project: Extended) -> None:
    if not project.parts:
        pytest.skip("nothing was added")
    project.run(repositories=project.repositories, grid={STUDY: {"include": project.parts}})
    with (project.path / measurements_of(STUDY)).open() as file:
        found = list(csv.DictReader(file))
    report = (project.path / "reports" / f"{STUDY}.html").read_text()
    for part in project.parts:
        for axis, value in part.items():
            for name in value if isinstance(value, list) else [value]:
                assert name in {row[axis] for row in found} and name in report
    added = study_file(project).read_text()
    assert ("slow-vs-medium" in report) == ("slow-vs-medium" in added)
