"""A bundle of another vcsbench's, opened in a folder of its own: checked, and its reports made again.

`python -m vcsbench.run.opening FILE [NAME]` opens one; nothing is measured, and no results are touched.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from vcsbench import __version__
from vcsbench.config.study import load_study
from vcsbench.errors import UserError
from vcsbench.report.citation import SHORT
from vcsbench.report.index import build_index, read_entries
from vcsbench.report.page import build_page
from vcsbench.report.results import read_results
from vcsbench.run.bundle import FINDINGS, INSIDE, LAYOUT, MANIFEST, NAME
from vcsbench.run.dependencies import ROOT
from vcsbench.run.provenance import provenance
from vcsbench.wholefile import read_json, write_whole

FOLDER = Path("opened")
# Beside the reports as they were packed, those that this vcsbench makes of the same results.
AGAIN = "again"
SHA256 = re.compile(r"[0-9a-f]{64}")
# A manifest has a line or two for each of some ten thousand files.
LARGEST_MANIFEST = 64 * 2**20


def unpack(archive: Path, name: str, root: Path) -> tuple[Path, dict[str, Any]]:
    """Unpack a bundle to opened/NAME below `root` (NAME is the archive's without one), whole or not at all;
    returns the folder and the manifest.

    Raises a UserError where the archive cannot be read, is no bundle or damaged, or has a member that it
    should not, and where the folder is there already.
    """
    name = name or archive.name.removesuffix(".gz").removesuffix(".tar")
    if not NAME.fullmatch(name):
        raise UserError(f"NAME={name}: is no name for a folder; say NAME=january, for instance")
    folder = root / FOLDER / name
    if folder.exists():
        raise UserError(f"{folder}: is there already; remove it, or say another NAME")
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".opening-") as made:
        target = Path(made) / name
        target.mkdir()
        try:
            with tarfile.open(archive, "r:gz") as packed:
                manifest = _extract(packed, target, archive)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            said = getattr(error, "strerror", None) or error
            raise UserError(f"{archive}: cannot be read as a bundle: {said}") from None
        shutil.move(target, folder)
    return folder, manifest


def _extract(packed: tarfile.TarFile, target: Path, archive: Path) -> dict[str, Any]:
    """Write each file that the manifest has to `target`, if the archive has just these, as packed."""
    manifest = _manifest(packed, archive)
    missing = dict(manifest["files"])
    for member in packed:
        if member.name == MANIFEST:
            continue
        name = member.name.removeprefix(f"{INSIDE}/")
        if not _is_safe(member) or name not in missing:
            raise UserError(
                f"{archive}: {member.name!r} has no place in a bundle; nothing is unpacked"
            )
        said = missing.pop(name)
        stream = packed.extractfile(member) if member.size == said["bytes"] else None
        content = stream.read() if stream else b""
        if not stream or hashlib.sha256(content).hexdigest() != said["sha256"]:
            raise UserError(f"{archive}: {name} is damaged: it is not what was packed")
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    if missing:
        raise UserError(f"{archive}: {min(missing)} is missing; ask for the bundle again")
    return manifest


def _manifest(packed: tarfile.TarFile, archive: Path) -> dict[str, Any]:
    first = packed.next()
    stream = packed.extractfile(first) if first and first.name == MANIFEST else None
    if not first or not stream or first.size > LARGEST_MANIFEST:
        raise UserError(f"{archive}: is no bundle of vcsbench; `make bundle` packs one")
    try:
        manifest = json.loads(stream.read())
        layout = manifest["layout"]
        known = layout == LAYOUT and all(
            NAME.fullmatch(study) and f"results/page/{study}.json" in manifest["files"]
            for study in manifest["studies"]
        )
        known = known and all(
            isinstance(said["bytes"], int) and SHA256.fullmatch(said["sha256"])
            for said in manifest["files"].values()
        )
    except (ValueError, TypeError, LookupError, AttributeError):
        raise UserError(f"{archive}: its manifest is damaged; ask for the bundle again") from None
    if not known:
        raise UserError(
            f"{archive}: has layout {layout!r}, and this vcsbench ({__version__}) knows {LAYOUT}; open it "
            f"with the one that packed it ({manifest.get('vcsbench')})"
        )
    found: dict[str, Any] = manifest
    return found


def _is_safe(member: tarfile.TarInfo) -> bool:
    """Whether a member is a plain file below the bundle's folder: no link, device, or way out of it."""
    path = PurePosixPath(member.name)
    inside = path.parts[:1] == (INSIDE,) and ".." not in path.parts and len(path.parts) > 1
    return member.isreg() and inside and str(path) == member.name


def make_again(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    """Make the reports of an unpacked bundle again, and an index of them; returns their paths."""
    made = []
    for study in manifest["studies"]:
        made_with = json.loads((folder / "results" / "page" / f"{study}.json").read_bytes())
        own = load_study(folder / "config" / "studies" / f"{study}.yaml")
        results = read_results(own, folder / "results", folder / FINDINGS, **made_with)
        path = folder / AGAIN / f"{study}.html"
        path.parent.mkdir(exist_ok=True)
        write_whole(path, build_page(results).encode())
        made.append(path)
    index = folder / AGAIN / "index.html"
    write_whole(index, build_index(read_entries(index.parent)).encode())
    return [*made, index]


def said(folder: Path, manifest: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What a user must know of an opened bundle, a line each; `here` is the provenance of this vcsbench."""
    lines = [f"{len(manifest['files'])} files, each as it was packed, in {folder}"]
    for study in manifest["studies"]:
        again = (folder / AGAIN / f"{study}.html").read_bytes()
        same = again == (folder / "reports" / f"{study}.html").read_bytes()
        lines.append(f"{study}: made again, {'the same page' if same else 'another page'}")
        theirs = read_json(folder / "results" / "provenance" / f"{study}.json")
        if _code(theirs) != _code(here) or not here.get("commit"):
            lines.append(
                f"{study}: tables and findings are those of {_code(theirs)}; the page that was made "
                f"again is of {_code(here)}, theirs is in {folder / 'reports'}"
            )
    return lines


def _code(said: Mapping[str, Any]) -> str:
    """Which vcsbench it is, as far as it is told."""
    if not said:
        return "a vcsbench that is not told"
    commit = (
        f", commit {said['commit'][:SHORT]}" if said["commit"] else ", of no commit that is known"
    )
    return f"vcsbench {said['vcsbench']}{commit}{' with changes' if said['changed'] else ''}"


def main(arguments: Sequence[str]) -> int:
    """Open a bundle; returns the exit code."""
    archive, name, *_ = [*arguments, "", ""]
    try:
        if not archive:
            raise UserError("say which bundle: make open BUNDLE=january.tar.gz")
        folder, manifest = unpack(Path(archive), name, Path.cwd())
        made = make_again(folder, manifest)
        print("\n".join(said(folder, manifest, provenance(ROOT, {}))))
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"{archive}: this vcsbench cannot show what is in it: {error!r}", file=sys.stderr)
        return 1
    print(f"Report: {made[0] if len(made) == 2 else made[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
