"""Studies other than that of the formats on disk run through the same workflow, from grid to report."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import Project, needs, open_folder
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches

RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.005, "seed": 1}}
SSD = "fsfs-ssd-2014"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def false_labels(runs: list[dict[str, str]]) -> list[str]:
    """The flags of runs that are not what their labels say. The clock's are left out: on a machine under
    load a run of some milliseconds may earn it."""
    flags = [" ".join(set(run["flags"].split()) - {"clock"}) for run in runs]
    return [words for words in flags if is_invalid(words)]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in RAM that the servers' user can enter."""
    with open_folder("/dev/shm") as path:
        yield path


@needs("svn", "svnserve", "hyperfine")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
@pytest.mark.slow
def test_the_ssd_study_measures_on_two_storages(project: Project, memory: Path) -> None:
    part = {"command": ["export", "log"], "format": ["f6", "f7"], "packing": "nopack"}
    project.configure(
        studies=[SSD],
        repositories=RUBY,
        rounds=1,
        copies=1,
        storages={"ssd": str(project.path / "storage"), "ram": str(memory)},
        storage="ssd",
        grid={SSD: {"include": [{**part, "config": "slow"}]}},
    )
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    grid = {row["cell"]: row["skip"] for row in rows(project.path / f"results/grid/{SSD}.csv")}
    assert "export/svn/ruby/f6/nopack/ram/slow/hot" in grid
    for cell, skip in grid.items():
        assert ("cannot be cold" in skip) == cell.endswith("/ram/slow/cold"), (cell, skip)
    found = rows(project.path / f"results/measurements/{SSD}.csv")
    assert {row["cell"] for row in found} == {cell for cell, skip in grid.items() if not skip}
    assert not false_labels(found)
    for row in found:
        path = f"results/cells/{SSD}/{row['cell']}/round1.context.json"
        context = json.loads((project.path / path).read_text())
        on_disk = {"ssd": project.path / "storage", "ram": memory}[row["storage"]]
        assert context["storage"]["name"] == row["storage"]
        assert Path(context["repository"]["path"]).is_relative_to(on_disk)
        assert context["promises"]["server"] == {"cold": "new", "hot": "kept"}[row["cache"]]
    table = rows(project.path / f"results/tables/{SSD}/f7-vs-f6.csv")
    assert {(row["command"], row["storage"], row["cache"]) for row in table} == {
        (c, *where)
        for c in ("export", "log")
        for where in (("ssd", "cold"), ("ssd", "hot"), ("ram", "hot"))
    }
    verdicts = {row["id"]: row for row in rows(project.path / f"results/findings/{SSD}.csv")}
    assert verdicts["ssd-export-hot-format-neutral"]["measured"]
    assert verdicts["ssd-load-f7-cost"]["verdict"] == "not measured"
    assert f"{SSD}" in (project.path / "reports" / f"{SSD}.html").read_text()


@needs("svn", "svnadmin", "hyperfine")
def test_loads_are_timed_into_fresh_repositories_and_verified(
    project: Project, memory: Path
) -> None:
    """Into both formats, on both storages, from a dump in RAM; a dump of the same revisions is timed, too."""
    load = {"command": "load", "format": ["f6", "f7"], "config": ["slow", "fast"]}
    dump = {"command": "dump", "format": "f7", "packing": "nopack", "storage": "ssd"}
    project.configure(
        studies=[SSD],
        repositories={"ruby": {**RUBY["ruby"], "scale": 0.002}},
        rounds=1,
        copies=1,
        storages={"ssd": str(project.path / "storage"), "ram": str(memory)},
        storage="ssd",
        grid={SSD: {"include": [load, {**dump, "config": "slow", "cache": "hot"}]}},
    )
    done = project.measure(SSD)
    assert done.returncode == 0, done.stdout
    runs = {row["cell"]: row for row in rows(project.path / f"results/measurements/{SSD}.csv")}
    loads = {cell: row for cell, row in runs.items() if row["command"] == "load"}
    assert len(loads) == 8 and not false_labels([*runs.values()])
    works = {row["work"] for row in loads.values()}
    assert len(works) == 1  # what was loaded is the same, whatever the format
    work, record = json.loads(works.pop()), load_record(project)
    # 5,000 revisions of the published ruby, at a scale as many of them.
    assert work["youngest"] == record["dump"]["last"] == 10
    assert record["revisions"] == 92
    told = json.loads(runs["dump/-/ruby/f7/nopack/ssd/slow/hot"]["work"])
    assert {**told, "youngest": 10} == work
    for cell, row in loads.items():
        path = project.path / f"results/cells/{SSD}/{cell}/round1.context.json"
        context = json.loads(path.read_text())
        assert context["stdin"] == record["dump"]["path"]
        written = Path(context["written"])
        on = {"ssd": project.path / "storage", "ram": memory}[row["storage"]]
        assert written.is_relative_to(on) and not written.exists()
        assert ("--no-flush-to-disk" in context["argv"]) == (row["config"] == "fast")


@pytest.mark.slow
@needs("svnadmin", "hyperfine")
def test_a_dump_that_is_gone_is_made_anew(project: Project) -> None:
    part = {"command": "load", "format": "f7", "storage": "ssd", "config": "slow"}
    small = {"ruby": {**RUBY["ruby"], "scale": 0.002}}
    grid = {SSD: {"include": [part]}}
    storages = {"ssd": str(project.path / "storage")}
    study = {"studies": [SSD], "repositories": small, "storages": storages, "storage": "ssd"}
    project.configure(**study, rounds=1, copies=1, grid=grid)
    assert project.measure(SSD).returncode == 0
    first = load_record(project)["dump"]
    Path(first["path"]).unlink()
    project.configure(**study, rounds=2, copies=1, grid=grid)
    done = project.measure(SSD)
    assert done.returncode == 0, done.stdout
    assert load_record(project)["dump"]["state"] != first["state"]
    assert len(rows(project.path / f"results/measurements/{SSD}.csv")) == 2


@pytest.mark.slow
@needs("svnadmin", "hyperfine")
@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to mount a file system")
def test_a_storage_that_is_full_in_the_middle_of_a_load_fails_its_cells_alone(
    project: Project,
) -> None:
    small = project.path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k,mode=755", "tmpfs", small], check=True)
    try:
        project.configure(
            studies=[SSD],
            repositories={"ruby": {**RUBY["ruby"], "scale": 0.02}},
            rounds=1,
            copies=1,
            storages={"ssd": str(project.path / "storage"), "ram": str(small)},
            storage="ssd",
            grid={SSD: {"include": [{"command": "load", "format": "f7", "config": "slow"}]}},
        )
        done = project.measure(SSD)
        assert "Traceback" not in done.stdout and "the run ends here" not in done.stdout
        measured = rows(project.path / f"results/measurements/{SSD}.csv")
        assert [row["storage"] for row in measured] == ["ssd"], done.stdout
        (failed,) = rows(project.path / f"results/failures/{SSD}.csv")
        assert "No space left on device" in failed["reason"]
        assert not list(small.glob("*/targets/*"))
    finally:
        subprocess.run(["umount", small], check=True)


def load_record(project: Project) -> dict[str, Any]:
    """What the record of the load says."""
    return dict(json.loads((project.path / "results/loaded/ruby.json").read_text()))


def test_a_storage_that_is_not_configured_is_one_sentence(project: Project) -> None:
    file = project.path / f"config/studies/{SSD}.yaml"
    study = yaml.safe_load(file.read_text())
    study["axes"]["storage"].append("tape")
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    part = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow"}
    grid = {SSD: {"include": [{**part, "storage": "tape"}]}}
    project.configure(studies=[SSD], repositories=RUBY, grid=grid)
    done = project.snakemake("-n")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "`storages.tape` is missing, on which the grid measures" in done.stdout


# A folder of files, in so many pieces: nothing of Subversion's is near it.
SUBJECT = '''"""The subject `pieces`: a folder of files, made for each cell-round."""

import os
import random
import shutil

from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import Subject


class Pieces(Subject):
    def __init__(self, recipe, number, run):
        super().__init__(recipe, number, run)
        place = WorkDir(recipe["storage"]["path"], os.getcwd()).make("targets")
        self.folders = [place / f"{os.getpid()}-pieces"]

    def check(self):
        self.folders[0].mkdir()
        for number in range(200):
            (self.folders[0] / f"{number:03}").write_bytes(random.Random(number).randbytes(200_000))
        os.sync()
        self.size = 200 * 200_000

    def words(self):
        return {"pieces": lambda: str(self.folders[0])}

    def discard(self):
        shutil.rmtree(self.folders[0], ignore_errors=True)


SUBJECT = Pieces
'''
TOY: dict[str, Any] = {
    "title": "How long it takes to read a folder",
    "source": "A study of nothing but folders.",
    "axes": {"tool": "commands", "cache": ["cold", "hot-os"]},
    "block": ["cache"],
    "variance_group": ["cache"],
    "commands": {
        name: {"argv": argv, "input": "pieces", "output": "target", "work": "tree"}
        for name, argv in {
            "copy": "cp -R {pieces} {target}",
            "preserve": "cp -a {pieces} {target}",
        }.items()
    },
    "tables": {
        "elapsed": {"metric": "elapsed_s", "rows": ["tool"], "columns": ["cache"]},
        "copy-vs-preserve": {
            "compare": {"axis": "tool", "baseline": "copy", "candidates": ["preserve"]},
            "rows": [],
            "columns": ["cache"],
        },
    },
}


@needs("hyperfine")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_a_study_without_subversion(project: Project) -> None:
    (project.path / "config/studies/toy.yaml").write_text(yaml.safe_dump(TOY, sort_keys=False))
    (project.path / "workflow/vcsbench/subjects/pieces.py").write_text(SUBJECT)
    project.configure(studies=["toy"], rounds=5, duplicates=1, grid={"toy": {"include": [{}]}})
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    found = rows(project.path / "results/measurements/toy.csv")
    originals = {"preserve/cold", "preserve/hot-os", "copy/cold", "copy/hot-os"}
    assert {row["cell"].removesuffix("~2") for row in found} == originals
    assert len(found) == 5 * (len(originals) + 2), "a twin of each class"
    assert [row["flags"] for row in found if is_invalid(row["flags"])] == []
    cold = [row for row in found if row["cache"] == "cold"]
    assert all(float(row["resident_before"]) < 0.05 for row in cold)
    assert all(int(row["client_read_bytes"]) > 30_000_000 for row in cold)
    assert {row["written_resident_after"] for row in found} <= {"1.0"}
    assert not (project.path / "results" / "repositories").exists()
    table = rows(project.path / "results/tables/toy/copy-vs-preserve.csv")
    assert [row["cache"] for row in table] == ["cold", "hot-os"]
    assert all(float(row["ratio"]) > 0 and row["n"] == "5" and row["call"] for row in table)
    page = (project.path / "reports" / "toy.html").read_text()
    head = page.partition('<script type="application/json">')[0]
    assert "How long it takes to read a folder" in head and "copy-vs-preserve" in head
    for word in ("svnserve", "format 6"):
        assert word not in head
    assert not list((project.path / "storage").glob("vcsbench-*/targets/*")), "nothing is left"
