"""`check` on a real, tiny repository of a user's own: the README's example followed, and what fails."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import ROOT, Project, needs

pytestmark = needs("svn", "svnadmin", "hyperfine")

STUDY = "fsfs-san-2014"
# These projects measure no twins.
UNKNOWN = r" \[noise unknown: the grid has no duplicates\]"
GRID = {
    STUDY: {
        "include": [
            {"command": "log", "ra": "file", "format": "f7", "config": "slow", "cache": "hot-os"}
        ],
        "exclude": [{"packing": "pack"}],
    }
}


def in_the_readme() -> dict[str, Any]:
    """The expectations that the README tells a user to write."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    text = next(block for block in blocks if block.startswith(f"{STUDY}:"))
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with five revisions."""
    path = tmp_path_factory.mktemp("own") / "project"
    subprocess.run(["svnadmin", "create", path], check=True)
    for number in range(5):
        url = f"{path.as_uri()}/trunk{number or ''}"
        subprocess.run(["svn", "mkdir", "-q", "-m", f"{number}", url], check=True)
    return path


def check(project: Project, own: Path) -> subprocess.CompletedProcess[str]:
    """What `make check REPO=...` does once everything is set up."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["./vcsbench", "check", f"--repository={own}", "--configfile", str(project.config)],
        cwd=project.path,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        timeout=400,
    )


def expect(project: Project, *more: dict[str, Any]) -> None:
    """Write the README's expectations, and more of the same study."""
    content = in_the_readme()
    content[STUDY] += more
    (project.path / "config" / "expectations.yaml").write_text(
        yaml.safe_dump(content, sort_keys=False)
    )


def level(name: str, at_most: float, **where: str) -> dict[str, Any]:
    return {
        "id": name,
        "statement": f"It takes {at_most} s at most.",
        "where": {"command": "log", **where},
        "level": "elapsed_s",
        "expect": {"over": "max", "at_most": at_most},
    }


def test_the_example_of_the_readme_and_an_expectation_that_does_not_hold(
    shared_project: Project, own: Path
) -> None:
    project = shared_project
    project.configure(rounds=5, copies=1, grid=GRID)

    expect(project)
    done = check(project, own)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, line, files, summary = done.stdout.splitlines()
    assert re.fullmatch(
        rf"holds: {STUDY} hot-log: 0\.\d+ \(0\.\d+ to 0\.\d+\) s, expected at most 2\.0{UNKNOWN}",
        line,
    )
    assert summary == "1 of 1 expectation pass"
    assert files == "as files: results/check.junit.xml and results/check.md"
    measured = project.exports()
    assert len(measured) == 5

    expect(project, level("in-no-time", 0.00001), level("on-cold-disks", 9, cache="cold"))
    done = check(project, own)
    assert done.returncode == 3, done.stdout + done.stderr
    holds, differs, missing, _, summary = done.stdout.splitlines()[-5:]
    assert holds.startswith("holds: ")
    assert differs.startswith(f"differs: {STUDY} in-no-time: 0.")
    assert re.search(f"expected at most 1e-05{UNKNOWN}$", differs)
    assert missing == (
        f"not measured: {STUDY} on-cold-disks: no value, expected at most 9 "
        "[not in the grid: cells with command log, cache cold]"
    )
    assert summary == "1 of 3 expectations pass"
    assert project.exports() == measured, "an expectation measures nothing anew"
    page = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert 'id="expectation-in-no-time"' in page


def test_the_target_of_snakemake(shared_project: Project, own: Path) -> None:
    project = shared_project
    project.configure(rounds=5, copies=1, grid=GRID, repository=str(own))
    expect(project, level("in-no-time", 0.00001))
    done = project.snakemake("check")
    assert done.returncode == 1
    assert f"differs: {STUDY} in-no-time" in done.stdout
    expect(project)
    done = project.snakemake("check")
    assert done.returncode == 0, done.stdout
    assert "1 of 1 expectation pass" in done.stdout


def save(project: Project, name: str) -> subprocess.CompletedProcess[str]:
    """What `make baseline NAME=...` does once everything is set up."""
    return subprocess.run(
        [sys.executable, "-m", "vcsbench.statistics.baselines", name],
        cwd=project.path,
        env={**os.environ, "PYTHONPATH": "workflow"},
        capture_output=True,
        text=True,
    )


def is_bundled(project: Project, page: str) -> None:
    """All that there is can be packed, and opened, and makes the same page; and says what made it."""
    said = json.loads((project.path / "results" / "provenance" / f"{STUDY}.json").read_text())
    assert said["command"].startswith("snakemake ") and " --forcerun cell " in said["command"]
    assert said["config"]["rounds"] == 5 and said["config_digest"] in page
    assert said["commit"] == "", "a copy of the workflow is no work tree"
    for arguments in (("bundle", "--name=all-of-it"), ("import", "bundles/all-of-it.tar.gz")):
        done = project.tool(*arguments)
        assert done.returncode == 0, done.stdout
    assert f"{STUDY}: rebuilt, the same page" in done.stdout
    opened = project.path / "opened" / "all-of-it"
    assert (opened / "again" / f"{STUDY}.html").read_text() == page
    assert (opened / "baselines" / "1.14-old" / f"{STUDY}.csv").exists()
    assert list(opened.glob(f"results/cells/{STUDY}/**/round5.context.json"))


@pytest.mark.slow
def test_a_baseline_is_saved_and_compared_with(shared_project: Project, own: Path) -> None:
    project = shared_project
    keys = {"copies": 1, "grid": GRID, "repository": str(own)}
    against = level("no-slower-than-old", 1)
    del against["level"]
    against |= {"compare": {"to": "1.14-old"}, "expect": {"over": "min", "at_least": 0.3}}
    expect(project, against)
    project.configure(rounds=5, **keys)
    done = project.snakemake("check")
    assert done.returncode == 1
    assert "[no baseline: there is no 1.14-old of this study; make baseline NAME=" in done.stdout

    done = save(project, "1.14-old")
    assert done.returncode == 0, done.stderr
    assert "1 cells in 5 rounds" in done.stdout
    done = save(project, "1.14-old")
    assert done.returncode == 1
    assert "the file exists, and a baseline is never overwritten" in done.stderr

    # Nothing has made the cells stale, so what is there is what was saved.
    project.configure(rounds=5, baselines=["1.14-old"], **keys)
    done = project.snakemake("check")
    assert done.returncode == 1
    assert "[same-runs: 1 of 1 cells not compared]" in done.stdout

    done = project.snakemake("all", "check", "--forcerun", "cell")
    assert done.returncode == 0, done.stdout
    assert f"holds: {STUDY} no-slower-than-old: " in done.stdout
    table = project.path / "results" / "tables" / STUDY / "1.14-old-vs-now.csv"
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["baseline"], row["candidate"], row["n"]) == ("1.14-old", "now", "5")
    assert float(row["low"]) < float(row["ratio"]) < float(row["high"])
    page = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert "1.14-old-vs-now" in page and 'id="chart-history"' in page
    history = json.loads((project.path / "results" / "history" / f"{STUDY}.json").read_text())
    assert [time["name"] for time in history["times"]] == ["1.14-old", "now"]
    is_bundled(project, page)

    project.configure(rounds=5, baselines=["gone"], **keys)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "test.yaml: `baselines`: there is no baseline gone" in done.stdout
    assert "there are: 1.14-old. `make baseline NAME=gone` saves one" in done.stdout


def test_bad_expectations_are_one_sentence_and_measure_nothing(
    shared_project: Project, own: Path
) -> None:
    project = shared_project
    project.configure(rounds=5, copies=1, grid=GRID)
    expect(project, level("typing-error", 1, cash="hot-os"))
    done = check(project, own)
    assert done.returncode == 1
    assert (
        "config/expectations.yaml: `fsfs-san-2014[1]`: the study has no axis `cash`" in done.stderr
    )
    assert "Traceback" not in done.stderr
    project.configure(rounds=5, copies=1, grid=GRID, expectations=["gone.yaml"])
    done = check(project, own)
    assert done.returncode == 1
    assert "test.yaml: `expectations`: there is no file" in done.stderr
