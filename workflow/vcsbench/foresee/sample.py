"""A checkout in miniature: the first revisions of each repository, prepared as a run prepares all of them,
and cells that are measured on these. It is removed in the end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.evidence import judgement
from vcsbench.files import write_json
from vcsbench.foresee.beginning import Beginning
from vcsbench.sources import Source
from vcsbench.storages.place import Place, resolve
from vcsbench.storages.runfolder import abandoned_places, remove_abandoned, run_folder
from vcsbench.subjects.repository import dumps, nursery, verifying
from vcsbench.subjects.repository.labels import EMPTY, FOLDER, Variant
from vcsbench.subjects.repository.loader import at_once, load_source
from vcsbench.subjects.repository.making import make_missing
from vcsbench.subjects.repository.room import choose_place
from vcsbench.urls import file_url, pegged

# Those of a sample: a shard, so that there is something to pack, and a few beyond.
REVISIONS = 1010
IDLE_RUNS = 5


class Loaded(NamedTuple):
    """What it took to load the first `revisions` of a repository, in seconds by stage; `record` is as that of
    a run."""

    revisions: int
    seconds: dict[str, float]
    record: dict[str, Any]


class Sample:
    """`folder` stands in for the checkout `root`."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        (folder / "config").symlink_to(root / "config")

    def place(self, storage: str) -> Place:
        """The sample's folder on a storage (a configured folder)."""
        return Place(resolve(storage, self.root), self.folder)

    def load(
        self,
        source: Source,
        repo: str,
        pairs: Sequence[Sequence[str]],
        scratch: str,
        copies: Mapping[str, int],
    ) -> Loaded:
        """Load the beginning of a source in these formats, and pack it, where a run would: it makes so many
        `copies` by storage. A UserError where there is no room for the whole of them."""
        beginning = Beginning(source, min(REVISIONS, source.estimate().revisions))
        whole = {self.place(storage): number for storage, number in copies.items()}
        with contextlib.redirect_stderr(io.StringIO()):
            place = choose_place(source.estimate(), at_once(pairs), self.place(scratch), whole)
            into = place.make(nursery.FOLDER, repo)
            began = time.monotonic()
            facts = load_source(beginning, pairs, into)
        after_s = time.monotonic() - began - beginning.written_s
        began = time.monotonic()
        verifying.all_in(into)
        seconds = {
            "converting": beginning.written_s - beginning.waited_s,
            "loading": beginning.waited_s,
            "verifying": time.monotonic() - began,
            "packing": after_s,
        }
        record = {"repo": repo, "identity": source.identity(), "path": str(into), **facts}
        return Loaded(int(facts["revisions"]), seconds, record)

    def dump(self, loaded: Loaded, revisions: int, scratch: str) -> None:
        """Dump so many revisions of what was loaded, for cells that read a dump file."""
        repository = next(path for path in Path(loaded.record["path"]).iterdir() if path.is_dir())
        name = loaded.record["repo"]
        made = dumps.make(repository, revisions, self.place(scratch), name)
        path = self.folder / "results" / "loaded" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**loaded.record, "dump": made})

    def copy(
        self, name: str, storage: str, variants: Sequence[Variant],
        loaded: Mapping[str, Loaded], fragmentation_kib: float,
    ) -> float:  # fmt: skip
        """Make one copy of each variant on a storage; returns the seconds that it took."""
        place, began = self.place(storage), time.monotonic()
        records = {repo: one.record for repo, one in loaded.items()}
        with contextlib.redirect_stderr(io.StringIO()):
            labels = make_missing(place, variants, 1, records, fragmentation_kib, 1)
        took = time.monotonic() - began
        path = self.folder / "results" / "repositories" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        layout = {"apart": [], "verdict": "alone"}
        known = {"place": str(place.path), "copies": 1, "layout": layout, "repositories": labels}
        write_json(path, {"storage": name, **known})
        return took

    def measure(self, recipe: Mapping[str, Any], thresholds: Mapping[str, float]) -> Path | None:
        """Measure a cell-round in a process of its own, as a run does; returns its export, None where it
        failed."""
        storage = {**recipe["storage"], "path": str(resolve(recipe["storage"]["path"], self.root))}
        export = self.folder / "export.json"
        words = [json.dumps({**recipe, "storage": storage}), "1", "0", "1"]
        done = subprocess.run(
            [*self._python(), *words, judgement.pack(thresholds), str(export)],
            cwd=self.folder,
            env=self._environment(),
        )
        return None if done.returncode else export

    def _python(self) -> list[str]:
        return [sys.executable, "-S", "-m", "vcsbench.run.cell"]

    def _environment(self) -> dict[str, str]:
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode")}
        return {**os.environ, "PYTHONPATH": str(self.root / "workflow"), **kept}

    def idle_s(self, storage: str) -> float:
        """What a client takes that has nothing to do, from hot caches."""
        url = pegged(file_url(self.place(storage).path / FOLDER / EMPTY))
        return statistics.median(_took_s(["svn", "info", url]) for _ in range(IDLE_RUNS))


def _took_s(argv: Sequence[str]) -> float:
    began = time.monotonic()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


@contextlib.contextmanager
def sample(root: Path, storages: Sequence[str]) -> Iterator[Sample]:
    """A sample that leaves nothing behind in a folder for temporary files and on the storages (configured
    folders), nor does one that was killed before it."""
    remove_abandoned(root, [])
    with run_folder(root) as folder:
        made = Sample(folder, root)
        places = [made.place(storage) for storage in dict.fromkeys(storages)]
        for place in places:
            _remove_abandoned(place, root)
        try:
            yield made
        finally:
            for place in places:
                place.remove()


def _remove_abandoned(place: Place, root: Path) -> None:
    """What a sample of this checkout left that was killed: its folder is gone by now."""
    ours = f"{Place('/', root).path.name}-"
    for gone in abandoned_places(place.storage):
        if Path(gone.owner).name.startswith(ours):
            gone.remove()
