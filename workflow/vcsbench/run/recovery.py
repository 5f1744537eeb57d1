"""What a power cut, a full disk or a kill left half-written is removed before anything is read, so that
it is made again; what was whole stays, though Snakemake did not get to know of it."""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import wholefile
from vcsbench.plan import fresh as unfinished
from vcsbench.storages import runfolder
from vcsbench.subjects.repository import copies

if TYPE_CHECKING:
    from vcsbench.run.house import House

# What takes long to make: a lost record of Snakemake's is no reason to make it again, since these say
# by themselves what they are of. All else below results/ and reports/ is made again in no time.
DEAR = ("results/cells/", "results/loaded/", "results/repositories/")
WRITTEN = ("results", "reports")
NAMED = 5


def mend(root: Path) -> list[str]:
    """Remove what is not whole below results/, reports/ and in Snakemake's notes; says so on standard
    error. Returns the paths, relative to `root`, of what is made again."""
    broken = {*_broken_files(root), *_files_of_torn_notes(root)}
    # Snakemake does not miss a file as long as what was made from it is there.
    computed = _sealed_files(root) if broken else []
    for path in [*(root / name for name in broken), *computed]:
        path.unlink(missing_ok=True)
    for name in broken:
        note_of(root, name).unlink(missing_ok=True)  # nothing is known of it
    _forget_marks(root)
    if broken:
        some = ", ".join(sorted(broken)[:NAMED]) + (", ..." if len(broken) > NAMED else "")
        print(f"vcsbench: not whole, and made again: {some}", file=sys.stderr)
    return sorted(broken)


def settle(house: House) -> None:
    """What the configuration has to be known for: removes what killed measurements left on the storages
    and in the folder for temporary files, and has those cell-rounds measured again that were measured
    as the configuration said once, where Snakemake has lost what it noted of them."""
    plan, root = house.plan, house.config.root
    runfolder.remove_abandoned(root, house.places())
    for storage in house.shelf.storages:
        _stand_in(house, storage)
    for cell in plan.cells:
        for export in plan.exports_of(cell):
            path = root / export
            measured = unfinished.measured_as(path)
            if (
                measured
                and measured[2] != plan.digest(measured[0], measured[1])
                and not note_of(root, export).exists()
            ):
                os.utime(path, (1, 1))  # older than the copies, so Snakemake makes it anew


def _stand_in(house: House, storage: str) -> None:
    """Where the record of the copies was lost, put one there that says nothing; so too where the copies
    themselves were, or were changed, and Snakemake has lost what it noted of them and could not tell. If it
    were missing, every cell would be measured anew; it is made again when a cell is to be measured."""
    root, record = house.config.root, f"results/repositories/{storage}.json"
    path = root / record
    made = copies.moment(path)
    as_recorded = made and (note_of(root, record).exists() or house.shelf.made(storage) == made)
    if as_recorded or not (root / DEAR[0]).exists():
        return
    path.parent.mkdir(exist_ok=True)
    wholefile.write_json(path, {})
    note_of(root, record).unlink(missing_ok=True)
    if house.is_measured(storage):
        return
    for repo in house.shelf.repositories(storage):
        loaded = root / "results" / "loaded" / f"{repo}.json"
        if house.shelf.loaded(repo) != copies.moment(loaded):
            loaded.unlink(missing_ok=True)
    mark = note_of(root, record, "incomplete")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps({"external_jobid": None}))


def _broken_files(root: Path) -> Iterator[str]:
    for top in WRITTEN:
        for folder, _, names in os.walk(root / top):
            for name in names:
                path = Path(folder, name)
                if name.startswith(".") and name.endswith(".new"):
                    path.unlink(missing_ok=True)
                elif name.startswith(".") and name.endswith(".sha256"):
                    if wholefile.is_broken(path):
                        yield str(wholefile.sealed_by(path).relative_to(root))
                        path.unlink()
                elif name.endswith(".json"):
                    below = str(path.relative_to(root))
                    if below.startswith(DEAR) and not _is_whole(path, below):
                        yield below


def _sealed_files(root: Path) -> list[Path]:
    seals = [seal for top in WRITTEN for seal in (root / top).rglob(".*.sha256")]
    return [wholefile.sealed_by(seal) for seal in seals]


def _is_whole(path: Path, below: str) -> bool:
    if below.startswith(DEAR[0]):
        return unfinished.measured_as(unfinished.export_of(path)) is not None
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except ValueError:
        return False


def _files_of_torn_notes(root: Path) -> Iterator[str]:
    """The files whose record (the parameters and the code that they were made with) is torn: whether
    they are as the configuration says now, nobody knows."""
    for note, path in _notes(root / ".snakemake" / "metadata"):
        content = note.read_bytes()
        if content[:1] == b"{" and content[-1:] == b"}" and b"\0" not in content:
            continue
        note.unlink()
        if path.startswith(("results/", "reports/")) and not path.startswith(DEAR):
            yield path


def _forget_marks(root: Path) -> None:
    """A cell-round that is whole is not measured again because Snakemake was killed before it knew."""
    for note, path in _notes(root / ".snakemake" / "incomplete"):
        export = unfinished.export_of(root / path)
        if path.startswith(DEAR[0]) and unfinished.measured_as(export) is not None:
            note.unlink()


def _notes(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file of Snakemake's below a folder with the path that it is about."""
    for parent, _, names in os.walk(folder):
        above = [part.removeprefix("@") for part in Path(parent).relative_to(folder).parts]
        for name in names:
            try:
                text = base64.urlsafe_b64decode("".join([*above, name])).decode()
            except (binascii.Error, ValueError):
                continue
            yield Path(parent, name), text


def note_of(root: Path, path: str, kind: str = "metadata") -> Path:
    """Where Snakemake notes with what parameters and code it made the file `path`; or as the other kind,
    that it is `incomplete`."""
    name = base64.urlsafe_b64encode(path.encode()).decode()
    longest = 254
    parts = [name[at : at + longest] for at in range(0, len(name), longest)]
    return root.joinpath(".snakemake", kind, *(f"@{part}" for part in parts[:-1]), parts[-1])
