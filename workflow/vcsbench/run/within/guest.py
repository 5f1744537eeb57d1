"""Measures a cell-round in a guest, as run.cell asks: python -m vcsbench.run.within.guest OUT."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.measure.cell import CellRound
from vcsbench.run.judging import judge_by
from vcsbench.storages import guest
from vcsbench.storages.place import Place
from vcsbench.storages.runfolder import run_folder
from vcsbench.subjects import subject_of

# A cell-round has several runs, and each its time limit.
GUEST_TIMES = 10


def measure(
    recipe: dict[str, Any], number: int, thresholds: dict[str, float], root: Path, folder: Path
) -> tuple[bytes, dict[str, Any]]:
    """On the host: measure round `number` of a cell in a guest; the export, and the context. `folder` is a
    private one. A UserError says why it failed."""
    # What the guest reads of the host has to be there before: it may not write it.
    kinds = [recipe[role] for role in ("input", "output") if recipe[role]]
    image_bytes = max(subject_of(kind)(recipe, number, folder).prepare() for kind in kinds)
    out = folder / "out"
    out.mkdir()
    there = {**recipe, "looked_at": True}
    job = {"recipe": there, "number": number, "thresholds": thresholds, "root": str(root)}
    (out / "job.json").write_text(json.dumps(job))
    python = [sys.executable, "-S", "-m", "vcsbench.run.within.guest", guest.OUT]
    package = Path(__file__).parents[3]
    environment = ["env", f"PYTHONPATH={package}", "PYTHONDONTWRITEBYTECODE=1"]
    limit_s = recipe["time_limit_s"]
    with _image(Place(recipe["filesystem"]["scratch"], root), image_bytes) as image:
        command, delay = [*environment, *python], recipe.get("delay", "")
        reads = [recipe["storage"]["path"], recipe["filesystem"]["scratch"], *_prefixes(recipe)]
        guest.run(root, folder, command, image, GUEST_TIMES * limit_s, delay, reads=reads)
    said = json.loads((out / "said.json").read_text()) if (out / "said.json").exists() else {}
    if "context" not in said:
        raise UserError(said.get("why") or f"the guest says: {(out / 'log').read_text()[-400:]}")
    return (out / "export.json").read_bytes(), said["context"]


def _prefixes(recipe: dict[str, Any]) -> list[str]:
    """Return the folders of the build's programs, of both sides."""
    sides = [recipe["build"].get(side) or {} for side in ("client", "server")]
    return [side["prefix"] for side in sides if side.get("prefix")]


@contextmanager
def _image(place: Place, size: int) -> Iterator[Path]:
    """An empty file in RAM, in a folder that says which process it is of."""
    folder = place.make("targets") / str(os.getpid())
    folder.mkdir()
    try:
        with (folder / "image").open("wb") as file:
            file.truncate(size)
        yield folder / "image"
    finally:
        shutil.rmtree(folder)


def main(out: str) -> int:
    """In the guest: measure, and write what was found."""
    folder = Path(out)
    job = json.loads((folder / "job.json").read_text())
    os.chdir(job["root"])
    try:
        with run_folder(job["root"]) as private:
            judge = judge_by(job["recipe"], job["thresholds"])
            round_of = CellRound(job["recipe"], job["number"], private, judge)
            # The lock is the host's, which holds it.
            exported, context = round_of.measure(os.open(os.devnull, os.O_RDONLY))
    except UserError as error:
        said: dict[str, Any] = {"why": str(error)}
    except Exception:  # nobody else would hear of it
        said = {"why": f"in the guest: {traceback.format_exc()}"}
    else:
        (folder / "export.json").write_bytes(exported)
        said = {"context": context}
    (folder / "said.json").write_text(json.dumps(said))
    return 0


MEASURE = measure

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
