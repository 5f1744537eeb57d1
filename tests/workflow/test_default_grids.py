"""The default grid of each study, on small repositories: no run contradicts its label."""

from __future__ import annotations

from typing import Any

import pytest

from project import ROOT, Project, needs, open_folder
from vcsbench.config.configuration import EMPTY
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches
from vcsbench.storages import guest

DEFAULT = read_yaml(ROOT / "config" / "config.yaml")
# One full shard for the cells on packed repositories.
SCALES = {"ruby": 0.0218, "large": 0.01, "small": 0.004, "linux": 0.01}
pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.slow,
]


def scaled() -> dict[str, dict[str, Any]]:
    """Return the default repositories at the scales of SCALES."""
    return {
        name: {**of, "scale": SCALES.get(name, of["scale"])}
        for name, of in DEFAULT["repositories"].items()
    }


@pytest.mark.parametrize(
    "study",
    [
        "fsfs-san-2014",
        "fsfs-ssd-2014",
        "server-prototype-2010",
        "working-copy-2012",
        "tree-building-2007",
    ],
)
def test_default_grid_has_no_invalid_run(project: Project, study: str) -> None:
    if (ROOT / guest.TOOLS).exists():
        (project.path / ".tools").mkdir()
        (project.path / guest.TOOLS).symlink_to((ROOT / guest.TOOLS).resolve())
    with open_folder("/dev/shm") as memory:
        storage = str(project.path / "storage")
        project.configure(
            studies=[study],
            repositories=scaled(),
            storages={"disk": storage, "ssd": storage, "ram": str(memory)},
            rounds=1,
            copies=1,
        )
        done = project.measure(study)
        assert done.returncode == 0, done.stdout
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
