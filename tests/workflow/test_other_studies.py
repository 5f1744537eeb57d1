"""The SSD study and a study without Subversion, and the default grids of all studies."""

import json
from pathlib import Path

import pytest

from project import CONFIG, ROOT, invalid_flags, needs, open_folder, ruby
from vcsbench.config.configuration import EMPTY
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches
from vcsbench.storages import guest

SSD = "fsfs-ssd-2014"


@pytest.fixture
def memory():
    with open_folder("/dev/shm") as path:
        yield path


@needs("svn", "svnadmin", "hyperfine")
def test_load_is_timed_into_new_repositories_and_verified(project, memory):
    """Load both formats on both storages from a dump in RAM, and time a dump of the same revisions."""
    load = {"command": "load", "format": "f7", "config": ["slow", "fast"]}
    load_f6 = {"command": "load", "format": "f6", "config": "slow", "storage": "ssd"}
    dump = {"command": "dump", "format": "f7", "packing": "nopack", "storage": "ssd"}
    parts = load, load_f6, {**dump, "config": "slow", "cache": "hot"}
    storages = {"ssd": str(project.path / "storage"), "ram": str(memory)}
    keys = {"repositories": ruby(0.002), "storages": storages, "storage": "ssd"}
    project.configure(*parts, study=SSD, **keys)
    project.succeed("measured")
    runs = {row["cell"]: row for row in project.rows(f"measurements/{SSD}.csv")}
    loads = {cell: row for cell, row in runs.items() if row["command"] == "load"}
    assert len(loads) == 5 and not invalid_flags([*runs.values()])
    (loaded,) = {row["work"] for row in loads.values()}
    work, record = json.loads(loaded), load_record(project)
    # The published study loads 5,000 revisions of ruby. The scale applies to them.
    assert work["youngest"] == record["dump"]["last"] == 10
    assert record["revisions"] == 92
    dumped = json.loads(runs["dump/-/ruby/f7/nopack/ssd/slow/hot"]["work"])
    assert {**dumped, "youngest": 10} == work
    assert {row["format"] for row in loads.values()} == {"f6", "f7"}
    for cell, row in loads.items():
        context = project.context(SSD, cell)
        assert context["stdin"] == record["dump"]["path"]
        written = Path(context["written"])
        on = {"ssd": project.path / "storage", "ram": memory}[row["storage"]]
        assert written.is_relative_to(on) and not written.exists()
        assert ("--no-flush-to-disk" in context["argv"]) == (row["config"] == "fast")


def load_record(project):
    return dict(project.json("loaded/ruby.json"))


DEFAULT = read_yaml(CONFIG / "config.yaml")
# One full shard for the cells on packed repositories.
SCALES = {"ruby": 0.0218, "large": 0.01, "small": 0.004, "linux": 0.01}


def scaled():
    """Return the default repositories at the scales of SCALES."""
    return {
        name: {**of, "scale": SCALES.get(name, of["scale"])}
        for name, of in DEFAULT["repositories"].items()
    }


STUDIES = [name for name in DEFAULT["grid"] if name != "own-repository"]


@pytest.mark.slow
@needs("svn", "svnserve", "hyperfine")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
@pytest.mark.parametrize("study", STUDIES)
def test_default_grid_has_no_invalid_run(project, study):
    if (ROOT / guest.TOOLS).exists():
        (project.path / ".tools").mkdir()
        (project.path / guest.TOOLS).symlink_to((ROOT / guest.TOOLS).resolve())
    with open_folder("/dev/shm") as memory:
        storage = str(project.path / "storage")
        storages = {"disk": storage, "ssd": storage, "ram": str(memory)}
        project.configure(study=study, repositories=scaled(), storages=storages)
        project.succeed("measured")
    runs = project.rows(f"measurements/{study}.csv")
    grid = [row for row in project.rows(f"grid/{study}.csv") if not row["skip"]]
    fixed_cost = project.rows(f"fixed-cost/{study}.csv")
    for rows, is_empty in ((runs, False), (fixed_cost, True)):
        cells = {row["cell"] for row in grid if (row.get("repo") == EMPTY) is is_empty}
        assert {run["cell"] for run in rows} == cells
    assert [(run["cell"], run["flags"]) for run in runs if is_invalid(run["flags"])] == []
    if study == "fsfs-san-2014":
        # Each format, packing and access does the same work.
        words = {word for run in runs for word in run["flags"].split()}
        assert not words & {"other-work", "work-unknown", "other-output"}
    if study == "working-copy-2012" and not guest.why_unavailable(ROOT):
        assert {"nfs", "guest-local"} <= {run["filesystem"] for run in runs}
