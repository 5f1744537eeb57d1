"""Additions as documented: each is made in one place and is measured.

The tests extend one project in their order."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from project import HOT, ROOT, STUDY, measurements_of, needs, ruby

pytestmark = needs("svn", "svnserve", "hyperfine")

MEASURED = measurements_of(STUDY)
PART = {**HOT, "access": "svn", "repo": "ruby"}
HALVED = '''"""A generated history of half the scale."""

from vcsbench.sources.generated import GeneratedSource


class HalvedSource(GeneratedSource):
    kind = "halved"

    def __init__(self, name, definition, where):
        super().__init__(name, {**definition, "scale": definition["scale"] / 2}, where)
'''


def edit(path, old, new):
    """Replace a text that occurs once in a file."""
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def project(shared_project):
    return shared_project


def measure(project, *parts, target=MEASURED, **keys):
    """Measure parts of a grid. Return the cells with a new result."""
    before = project.exports()
    project.configure(*({**PART, **part} for part in parts), **keys)
    project.succeed(target)
    return {str(Path(path).parent) for path in project.measured_since(before)}


def study_file(project):
    return project.path / "config" / "studies" / f"{STUDY}.yaml"


def add_command(project):
    """Add the command of docs/extending.md."""
    path = study_file(project)
    text = (ROOT / "docs" / "extending.md").read_text()
    example = r"```yaml\naxes:\n(  command: .*)\n(commands:\n.*?)```"
    axes, commands = re.findall(example, text, re.S)[0]
    edit(path, "commands:\n", commands)
    path.write_text(re.sub("^  command: .*", axes, path.read_text(), count=1, flags=re.M))


def add_server_configuration(project):
    servers = project.path / "config" / "servers"
    shutil.copytree(servers / "slow", servers / "tiny-cache")
    (servers / "tiny-cache" / "svnserve.args").write_text("--threads --memory-cache-size 1\n")


def add_access(project):
    access = project.path / "workflow" / "vcsbench" / "systems" / "subversion.py"
    files = '"files": ["svnserve.args", "client"]'
    entry = f'        "svn-again": {{"scheme": "svn", {files}, "server": "svnserve"}},\n'
    start = "    accesses: ClassVar[Mapping[str, Access]] = {\n"
    edit(access, start, start + entry)
    edit(study_file(project), "  access: [http,", "  access: [svn-again, http,")


def add_cache_states(project):
    """Add `once`, and `never`, whose steps do not keep its promise of a new server."""
    states = project.path / "workflow" / "vcsbench" / "axes" / "cache_states.py"
    steps = '"setup": ["start-server"], "prepare": [], "warmup": 1'
    state = f'{{{steps}, "promises": {{"os": "hot", "server": "kept"}}}}'
    once = f'    "once": CacheState({state}),\n'
    never = once.replace("once", "never").replace('"kept"', '"new"')
    start = "STATES: dict[str, CacheState] = {\n"
    edit(states, start, start + once + never)
    edit(study_file(project), "  cache: [cold,", "  cache: [once, never, cold,")


def add_source(project):
    folder = project.path / "workflow" / "vcsbench" / "sources"
    (folder / "halved.py").write_text(HALVED)
    entry = '    "git": GitSource,\n'
    edit(folder / "__init__.py", entry, entry + '    "halved": HalvedSource,\n')
    imported = "from vcsbench.sources.generated import EmptySource, GeneratedSource"
    added = f"from vcsbench.sources.halved import HalvedSource\n{imported}"
    edit(folder / "__init__.py", imported, added)
    models = project.path / "workflow" / "vcsbench" / "config" / "models.py"
    edit(models, 'Literal["generated", "git",', 'Literal["halved", "generated", "git",')


@pytest.mark.slow
def test_values_added_to_axes_are_measured(project):
    for add in (add_command, add_server_configuration, add_access, add_cache_states, add_source):
        add(project)
    small = ruby(0.0005)
    half = {**small["ruby"], "source": "halved", "scale": 0.001}
    cells = measure(
        *(project, {"command": "blame", "cache": "cold"}, {"config": "tiny-cache"}),
        *({"access": "svn-again"}, {"cache": ["once", "never"]}, {"repo": "half"}),
        repositories={**small, "half": half},
    )
    blame = "blame/svn/ruby/f7/nopack/slow/cold"
    assert cells == {
        f"{STUDY}/{blame}",
        f"{STUDY}/log/svn/ruby/f7/nopack/tiny-cache/hot-os",
        f"{STUDY}/log/svn-again/ruby/f7/nopack/slow/hot-os",
        f"{STUDY}/log/svn/ruby/f7/nopack/slow/once",
        f"{STUDY}/log/svn/ruby/f7/nopack/slow/never",
        f"{STUDY}/log/svn/half/f7/nopack/slow/hot-os",
    }
    context = project.context(STUDY, blame)
    argv = ["svn", "blame", f"file://{context['repository']['path']}/trunk/ChangeLog"]
    output = subprocess.run(argv, capture_output=True, check=True).stdout
    work = context["runs"][0]["work"]
    assert work["lines"] == output.count(b"\n") > 10 and work["bytes"] == len(output)
    rows = project.rows(f"measurements/{STUDY}.csv")
    flags = {row["cache"]: row["flags"].split() for row in rows}
    assert "server-reused" in flags["never"] and "server-reused" not in flags["once"]


def test_axes_added_are_measured(project):
    # `depth` is a list of words in a command, and `reader` has an entry in the table of axes.
    table = project.path / "workflow" / "vcsbench" / "axes" / "__init__.py"
    entry = """Axis(
            "reader",
            why_not=lambda value, draft, env: "nobody reads that" if value == "nobody" else "",
            recipe_keys=lambda value, env: {"environment": {"READER": value}},
        ),
        Axis(STRATEGY_AXIS),"""
    edit(table, "Axis(STRATEGY_AXIS),", entry)
    study = yaml.safe_load(study_file(project).read_text())
    study["axes"] |= {"depth": ["5", "7"], "reader": ["man", "nobody"]}
    study["commands"]["log"]["argv"] = "{svn} log --limit {depth} {url}"
    numbers = study["published"]["numbers"]
    study["published"]["numbers"] = {numbers: {"depth": "", "reader": ""}}
    for table in study["tables"].values():
        table["rows"] = [*table["rows"], "depth", "reader"]
    text = yaml.safe_dump({**study, "title": "Readers"}, sort_keys=False)
    (study_file(project).parent / "readers.yaml").write_text(text)
    cells = measure(project, {}, target=measurements_of("readers"), study="readers")
    path = "readers/log/svn/ruby/f7/nopack/slow/hot-os"
    assert cells == {f"{path}/5/man", f"{path}/7/man"}
    skips = {row["cell"]: row["skip"] for row in project.rows("grid/readers.csv")}
    assert skips["log/svn/ruby/f7/nopack/slow/hot-os/5/nobody"] == "nobody reads that"
    context = project.context("readers", "log/svn/ruby/f7/nopack/slow/hot-os/7/man")
    assert context["runs"][0]["work"]["revisions"] == 7


@pytest.mark.slow
def test_metric_and_tables_added_are_written(project):
    metric = (
        'Metric("server_cpu", "Server CPU", "s", "CPU", "Seconds.", needs=("server_cpu_s",)),\n'
    )
    metrics = project.path / "workflow" / "vcsbench" / "metrics.py"
    edit(metrics, "_LOADS = (\n", f"_LOADS = (\n    {metric}")
    more = "columns: [cache, config], published: false"
    compare = "{axis: format, baseline: f6, candidates: [f7], metric: server_cpu}"
    added = f"  server-cpu: {{metric: server_cpu, rows: [access, repo, format], {more}}}\n"
    added += f"  server-cpu-by-format: {{compare: {compare}, rows: [access, repo], {more}}}\n"
    edit(study_file(project), "tables:\n", f"tables:\n{added}")
    measure(project, {"format": ["f6", "f7"]}, target=f"results/tables/{STUDY}")
    seconds, compared = (
        project.rows(f"tables/{STUDY}/{name}.csv")
        for name in ("server-cpu", "server-cpu-by-format")
    )
    assert [row["format"] for row in seconds] == ["f6", "f7"]
    f6, f7 = (float(row["value"]) for row in seconds)
    assert 0 < f6 < 10 and float(compared[0]["value"]) == pytest.approx(100 * (f6 / f7 - 1))
