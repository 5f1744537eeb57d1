"""The default grid of each study, on small repositories: no run contradicts its label."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from project import ROOT, Project, needs, open_folder
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches
from vcsbench.storages import guest

DEFAULT = read_yaml(ROOT / "config" / "config.yaml")
# One full shard where something is packed.
SCALES = {"ruby": 0.0218, "large": 0.01, "small": 0.004, "linux": 0.01}
pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.slow,
]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


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
def test_default_grid_has_no_invalid_run(whole_project: Project, study: str) -> None:
    if (ROOT / guest.TOOLS).exists():
        (whole_project.path / ".tools").mkdir()
        (whole_project.path / guest.TOOLS).symlink_to((ROOT / guest.TOOLS).resolve())
    with open_folder("/dev/shm") as memory:
        storage = str(whole_project.path / "storage")
        whole_project.configure(
            studies=[study],
            repositories=scaled(),
            storages={"disk": storage, "ssd": storage, "ram": str(memory)},
            rounds=1,
            copies=1,
        )
        done = whole_project.measure(study)
        assert done.returncode == 0, done.stdout
    found = rows(whole_project.path / f"results/measurements/{study}.csv")
    grid = rows(whole_project.path / f"results/grid/{study}.csv")
    assert {run["cell"] for run in found} == {row["cell"] for row in grid if not row["skip"]}
    assert [(r["cell"], r["flags"]) for r in found if is_invalid(r["flags"])] == []
    if study == "working-copy-2012" and not guest.why_unavailable(ROOT):
        assert {"nfs", "guest-local"} <= {run["filesystem"] for run in found}
