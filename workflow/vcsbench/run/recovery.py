"""What a power cut, a full disk or a kill left half-written is removed before anything is read, so that
it is made again; what was whole stays, though Snakemake did not get to know of it."""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import wholefile
from vcsbench.plan import fresh
from vcsbench.plan.passes import ask_for_decision
from vcsbench.storages import runfolder

if TYPE_CHECKING:
    from vcsbench.run.house import House

# What takes long to make: a lost record of Snakemake's is no reason to make it again, since these say
# by themselves what they are of. All else below results/ and reports/ is made again in no time.
CELLS = "results/cells/"
RECORDS = ("results/loaded/", "results/repositories/")
DEAR = (CELLS, *RECORDS)
WRITTEN = ("results", "reports")
LOGS = "results/logs"
NAMED = 5


def mend(root: Path) -> list[str]:
    """Remove what is not whole below results/, reports/ and in Snakemake's notes; says so on standard
    error. Returns the paths, relative to `root`, of what is made again. What a run before this one has
    looked at, and what has not changed since, is not read again."""
    began, before = _clock(root), fresh.recall(root)
    files, seals = _written(root)
    cells = [path for path in files if path.startswith(CELLS) and path.endswith(".json")]
    exports = fresh.whole(root, set(map(fresh.export_of, cells)))
    broken = {path for path in cells if fresh.export_of(path) not in exports}
    broken |= set(_broken(root, files, seals))
    # Nothing is older than a moment that is still to come: somebody has set the clock back.
    new = list(_notes(root / ".snakemake" / "metadata", before.until * (before.until <= began)))
    broken |= set(_files_of_torn_notes(new))
    # Snakemake does not miss a file as long as what was made from it is there.
    computed = map(wholefile.sealed_by, seals) if broken else ()
    for path in [*(root / name for name in broken), *computed]:
        path.unlink(missing_ok=True)
    for name in broken:
        note_of(root, name).unlink(missing_ok=True)  # nothing is known of it
    _forget_marks(root)
    after = fresh.noted(root, exports - broken, began)
    if new or after.results != before.results:
        fresh.note(root, after)
    if broken:
        some = ", ".join(sorted(broken)[:NAMED]) + (", ..." if len(broken) > NAMED else "")
        print(f"vcsbench: not whole, and made again: {some}", file=sys.stderr)
    return sorted(broken)


def settle(house: House) -> None:
    """What the configuration has to be known for: removes what killed measurements left on the storages
    and in the folder for temporary files, and has those cell-rounds measured again that were measured
    as the configuration said once, where Snakemake has lost what it noted of them; and the next
    decision made, where there are passes."""
    plan, root = house.plan, house.config.root
    runfolder.remove_abandoned(root, house.places())
    for storage in house.shelf.storages:
        _stand_in(house, storage)
    for cell in plan.cells:
        for export in plan.exports_of(cell):
            path = f"{root}/{export}"
            if (
                not plan.is_fresh(export)
                and fresh.measured_as(path)
                and not note_of(root, export).exists()
            ):
                os.utime(path, (1, 1))  # older than the copies, so Snakemake makes it anew
    for study, passes in plan.passes.items():
        ask_for_decision(root, study, passes.next)


def _stand_in(house: House, storage: str) -> None:
    """Where the record of the copies was lost, put one there that says nothing; so too where the copies
    themselves were, or were changed, and Snakemake has lost what it noted of them and could not tell. If it
    were missing, every cell would be measured anew; it is made again when a cell is to be measured."""
    root, record = house.config.root, f"results/repositories/{storage}.json"
    path = root / record
    made = wholefile.read_json(path).get("made")
    as_recorded = made and (note_of(root, record).exists() or house.shelf.made(storage) == made)
    if as_recorded or not (root / CELLS).exists():
        return
    path.parent.mkdir(exist_ok=True)
    wholefile.write_json(path, {})
    note_of(root, record).unlink(missing_ok=True)
    if house.is_measured(storage):
        return
    for repo in house.shelf.repositories(storage):
        loaded = house.shelf.load_record(repo)
        if house.shelf.loaded(repo) != wholefile.read_json(loaded).get("made"):
            loaded.unlink(missing_ok=True)
    mark = note_of(root, record, "incomplete")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps({"external_jobid": None}))


def _written(root: Path) -> tuple[list[str], list[Path]]:
    """The files below results/ and reports/, relative to `root`, and the seals there. What was being written
    when a run was killed is removed."""
    files, seals = [], []
    for top in WRITTEN:
        for folder, folders, names in os.walk(root / top):
            below = os.path.relpath(folder, root)
            if below == LOGS:
                folders.clear()  # nothing is made from a log, and none is written under another name
            for name in names:
                if not name.startswith("."):
                    files.append(f"{below}/{name}")
                elif name.endswith(".new"):
                    Path(folder, name).unlink(missing_ok=True)
                elif name.endswith(".sha256"):
                    seals.append(Path(folder, name))
    return files, seals


def _broken(root: Path, files: Iterable[str], seals: Iterable[Path]) -> Iterator[str]:
    """Those of the files, cell-rounds apart, that are not whole. A seal that does not fit goes, too."""
    for seal in seals:
        if wholefile.is_broken(seal):
            yield str(wholefile.sealed_by(seal.relative_to(root)))
            seal.unlink()
    for path in files:
        if path.startswith(RECORDS) and path.endswith(".json") and not _is_whole(root / path):
            yield path


def _is_whole(record: Path) -> bool:
    try:
        return isinstance(json.loads(record.read_bytes()), dict)
    except ValueError:
        return False


def _files_of_torn_notes(notes: Iterable[tuple[Path, str]]) -> Iterator[str]:
    """The files whose record (the parameters and the code that they were made with) is torn: whether
    they are as the configuration says now, nobody knows."""
    for note, path in notes:
        content = note.read_bytes()
        if content[:1] == b"{" and content[-1:] == b"}" and b"\0" not in content:
            continue
        note.unlink()
        if path.startswith(("results/", "reports/")) and not path.startswith(DEAR):
            yield path


def _forget_marks(root: Path) -> None:
    """A cell-round that is whole is not measured again because Snakemake was killed before it knew."""
    for note, path in _notes(root / ".snakemake" / "incomplete"):
        if path.startswith(CELLS) and fresh.measured_as(root / fresh.export_of(path)) is not None:
            note.unlink()


def _notes(folder: Path, since: int = 0) -> Iterator[tuple[Path, str]]:
    """Each file of Snakemake's below a folder with the path that it is about; those whose ctime in ns is no
    less than `since`."""
    for parent, _, names in os.walk(folder):
        above = [part.removeprefix("@") for part in Path(parent).relative_to(folder).parts]
        for name in names:
            if since and os.stat(f"{parent}/{name}").st_ctime_ns < since:
                continue
            try:
                text = base64.urlsafe_b64decode("".join([*above, name])).decode()
            except (binascii.Error, ValueError):
                continue
            yield Path(parent, name), text


def _clock(root: Path) -> int:
    """Now, as ctime in ns: results/ may be a link to another machine's disk, with a clock of its own."""
    moments = []
    for folder in (root / ".snakemake", root / WRITTEN[0]):
        if folder.exists():
            with tempfile.TemporaryFile(dir=folder) as file:
                moments.append(os.fstat(file.fileno()).st_ctime_ns)
    return min(moments, default=0)


def note_of(root: Path, path: str, kind: str = "metadata") -> Path:
    """Where Snakemake notes with what parameters and code it made the file `path`; or as the other kind,
    that it is `incomplete`."""
    name = base64.urlsafe_b64encode(path.encode()).decode()
    longest = 254
    parts = [name[at : at + longest] for at in range(0, len(name), longest)]
    return root.joinpath(".snakemake", kind, *(f"@{part}" for part in parts[:-1]), parts[-1])
