"""A saved run of real exports and contexts gives the same measurements and tables.

Texts are equal, and numbers to 12 digits: on another processor, numpy adds with other instructions, so the
last digits differ.

A change of method, a renamed column or flag changes them on purpose.
`python tests/unit/test_saved_run.py` then writes the expected files again.
"""

import csv
import io
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests")]

from unit.study_grid import study_grid  # noqa: E402
from vcsbench.evidence.collection import collect  # noqa: E402
from vcsbench.evidence.measurements import read_back, read_grid, read_measurements  # noqa: E402
from vcsbench.result_paths import CellRound  # noqa: E402
from vcsbench.run.study_params import StudyParams  # noqa: E402
from vcsbench.statistics.comparisons import Limits  # noqa: E402
from vcsbench.statistics.tables import make_tables  # noqa: E402

STUDY = "fsfs-san-2014"
SAVED = Path(__file__).parent / "data" / "saved-run.tar.xz"
EXPECTED = Path(__file__).parent / "data" / "saved-run-expected"
# Two rounds of 48 cells, and a part of the third.
ROUNDS, EXPORTS = 3, 118


def computed(folder):
    folder /= "results"
    with tarfile.open(SAVED) as archive:
        archive.extractall(folder, filter="data")
    here, _ = study_grid(STUDY)
    axes, grid = read_grid(folder / "grid" / f"{STUDY}.csv")
    exports = [path for path in folder.rglob("round*.json") if "context" not in path.name]
    assert len(exports) == EXPORTS
    results = [CellRound.parse(export) for export in exports]
    rounds = {row["cell"]: ROUNDS for row in grid}
    collected = collect(STUDY, axes, grid, rounds, results, folder=str(folder))
    text = collected.measurements.to_csv(index=False)
    (folder / "measurements.csv").write_text(text)
    frame = read_measurements(folder / "measurements.csv")
    # Decisions on rounds read no file.
    pd.testing.assert_frame_equal(read_back(collected.measurements), frame)
    params = StudyParams(STUDY, here.root, here)
    block = params.definition.block
    limits = Limits.from_config(here.config)
    tables = make_tables(frame, params.tables, params.order, block, limits)
    found = {name: table.to_csv(index=False) for name, table in tables.items() if len(table)}
    return {"measurements": text, **found}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return computed(tmp_path_factory.mktemp("saved"))


NAMES = sorted(path.name.removesuffix(".csv") for path in EXPECTED.glob("*.csv"))


@pytest.mark.parametrize("name", NAMES)
def test_saved_run_gives_the_same_file(files, name):
    made = list(csv.reader(io.StringIO(files[name])))
    expected = list(csv.reader(io.StringIO((EXPECTED / f"{name}.csv").read_text())))
    assert len(made) == len(expected)
    for made_row, expected_row in zip(made, expected, strict=True):
        assert len(made_row) == len(expected_row)
        for made_value, expected_value in zip(made_row, expected_row, strict=True):
            assert is_same_value(made_value, expected_value), (made_row, expected_row)


def is_same_value(made, expected):
    if made == expected:
        return True
    try:
        return float(made) == pytest.approx(float(expected), rel=1e-12)
    except ValueError:
        return False


def test_saved_run_gives_no_other_tables(files):
    assert sorted(files) == NAMES
    assert len(NAMES) > 5


if __name__ == "__main__":
    shutil.rmtree(EXPECTED, ignore_errors=True)
    EXPECTED.mkdir()
    with tempfile.TemporaryDirectory() as made:
        for name, text in computed(Path(made)).items():
            (EXPECTED / f"{name}.csv").write_text(text)
