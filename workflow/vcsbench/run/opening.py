"""A bundle of another vcsbench's, opened in a folder of its own: checked, and its reports made again.

`python -m vcsbench.run.opening FILE [NAME]` opens one; nothing is measured, and no results are touched.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench import __version__
from vcsbench.config.study import load_study
from vcsbench.errors import UserError
from vcsbench.external import open_regular
from vcsbench.files import read_json, write_bytes
from vcsbench.modules import PACKAGE
from vcsbench.report.citation import SHORT
from vcsbench.report.index import build_index, read_entries
from vcsbench.report.page import build_page
from vcsbench.report.results import read_results
from vcsbench.run.bundle import FINDINGS, INSIDE, LAYOUT, MANIFEST, NAME
from vcsbench.run.bundlecheck import (
    THEIRS,
    check_files,
    check_study,
    is_file_name,
    one_line,
    stored_name,
)
from vcsbench.run.provenance import provenance
from vcsbench.sources import archives
from vcsbench.sources.archives import ArchiveError, ContainedFolder, split_name

FOLDER = Path("opened")
# Beside the reports as they were packed, those that this vcsbench makes of the same results.
AGAIN = "again"
SHA256 = re.compile(r"[0-9a-f]{64}")
# A manifest has a line or two for each of some ten thousand files.
LARGEST_MANIFEST = 16 * 2**20
# A small bundle may expand to this many bytes.
EXPANDED_BYTES = 64 * 2**20


def unpack(archive: Path, name: str, root: Path) -> tuple[Path, dict[str, Any]]:
    """Unpack a bundle to opened/NAME below `root`, and return the folder and the manifest.

    NAME is by default the archive's name. A refused bundle leaves nothing. Raise UserError if the archive is
    damaged, has a member or a name that it should not, or the folder exists.
    """
    name = name or archive.name.removesuffix(".gz").removesuffix(".tar")
    if not NAME.fullmatch(name):
        raise UserError(
            f"NAME={one_line(name)}: is no name for a folder; say NAME=january, for instance"
        )
    folder = root / FOLDER / name
    if os.path.lexists(folder):
        raise UserError(f"{folder}: is there already; remove it, or say another NAME")
    is_new = not folder.parent.exists()
    folder.parent.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".opening-") as made:
            target = Path(made) / name
            target.mkdir()
            manifest = _read(archive, target)
            shutil.move(target, folder)
    except BaseException:
        if is_new:
            folder.parent.rmdir()
        raise
    return folder, manifest


def _read(archive: Path, target: Path) -> dict[str, Any]:
    """Write the files of an archive to `target`, check them, and return the manifest."""
    shown = one_line(archive)
    try:
        descriptor = open_regular(archive)
        size = os.fstat(descriptor).st_size
        with (
            open(descriptor, "rb") as file,
            gzip.GzipFile(fileobj=file) as stream,
            ContainedFolder(target, size, EXPANDED_BYTES) as contained,
        ):
            manifest = _extract(archives.read_members(stream), contained, shown)
        check_files(target, manifest["files"])
    except ArchiveError as error:
        raise UserError(f"{shown}: cannot be read as a bundle: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise UserError(f"{shown}: cannot be read as a bundle: {reason}") from None
    except UserError as error:
        message = str(error)
        raise UserError(message if message.startswith(shown) else f"{shown}: {message}") from None
    return manifest


def _extract(
    members: Iterator[archives.Member], contained: ContainedFolder, archive: str
) -> dict[str, Any]:
    """Write each file that the manifest has, if the archive has exactly these, as packed."""
    manifest = _manifest(next(members, None), archive)
    missing = dict(manifest["files"])
    for member in members:
        inside = member.name.decode("utf-8", "backslashreplace")
        name = inside.removeprefix(f"{INSIDE}/")
        if name == inside or member.kind != archives.FILE or name not in missing:
            raise UserError(
                f"{archive}: '{one_line(inside)}' has no place in a bundle; nothing is unpacked"
            )
        packed = missing.pop(name)
        digest = hashlib.sha256()
        if member.size == packed["bytes"]:
            content = _hashed(member.content, digest)
            contained.add_file(split_name(stored_name(name).encode()), content, mode=0o444)
        if digest.hexdigest() != packed["sha256"]:
            raise UserError(f"{archive}: {name} is damaged: it is not what was packed")
    if missing:
        raise UserError(f"{archive}: {min(missing)} is missing; ask for the bundle again")
    return manifest


def _hashed(chunks: Iterator[bytes], digest: Any) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def _manifest(first: archives.Member | None, archive: str) -> dict[str, Any]:
    """Return the manifest, the first member of an archive, with its names checked."""
    if not first or first.name != MANIFEST.encode() or first.size > LARGEST_MANIFEST:
        raise UserError(f"{archive}: is no bundle of vcsbench; `make bundle` packs one")
    try:
        manifest: dict[str, Any] = json.loads(b"".join(first.content))
        layout, studies, files = manifest["layout"], manifest["studies"], manifest["files"]
        known = layout == LAYOUT and isinstance(studies, list)
        known = known and all(
            NAME.fullmatch(study) and f"results/page/{study}.json" in files for study in studies
        )
        known = known and all(
            type(file["bytes"]) is int and SHA256.fullmatch(file["sha256"])
            for file in files.values()
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise UserError(f"{archive}: its manifest is damaged; ask for the bundle again") from None
    if not known:
        raise UserError(
            f"{archive}: has layout {one_line(repr(layout), 40)}, and this vcsbench ({__version__}) knows "
            f"{LAYOUT}; open it with the one that packed it ({one_line(manifest.get('vcsbench'), 40)})"
        )
    if not studies:
        raise UserError(f"{archive}: the bundle has no study; ask for the bundle again")
    if wrong := next((name for name in files if not is_file_name(name)), None):
        raise UserError(
            f"{archive}: '{one_line(wrong)}' has no place in a bundle; nothing is unpacked"
        )
    return manifest


def make_again(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    """Make the reports of an unpacked bundle again, and an index of them; returns their paths."""
    made = []
    for study in manifest["studies"]:
        made_with = json.loads((folder / "results" / "page" / f"{study}.json").read_bytes())
        path = folder / "config" / "studies" / f"{study}.yaml"
        own = load_study(path)
        check_study(own, made_with, str(path))
        results = read_results(own, folder / "results", folder / FINDINGS, **made_with)
        path = folder / AGAIN / f"{study}.html"
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, build_page(results).encode())
        made.append(path)
    index = folder / AGAIN / "index.html"
    write_bytes(index, build_index(read_entries(index.parent)).encode())
    return [*made, index]


def said(folder: Path, manifest: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return lines about an opened bundle; `here` is the provenance of this vcsbench."""
    lines = [f"{len(manifest['files'])} files, each as it was packed, in {folder}"]
    for study in manifest["studies"]:
        again = (folder / AGAIN / f"{study}.html").read_bytes()
        theirs = folder / "reports" / f"{study}.html{THEIRS}"
        same = theirs.is_file() and again == theirs.read_bytes()
        lines.append(f"{study}: made again, {'the same page' if same else 'another page'}")
        packed = read_json(folder / "results" / "provenance" / f"{study}.json")
        if _code(packed) != _code(here) or not here.get("commit"):
            lines.append(
                f"{study}: tables and findings are those of {_code(packed)}; the page that was made "
                f"again is of {_code(here)}"
            )
        if not same:
            lines.append(
                f"{study}: {theirs} is a stranger's page. It may run scripts: do not open it."
            )
    return lines


def _code(provenance: Mapping[str, Any]) -> str:
    """Return the version and commit of a vcsbench, as far as they are known."""
    if not provenance:
        return "a vcsbench that is not told"
    commit = one_line(provenance["commit"], SHORT + 8)[:SHORT] if provenance["commit"] else ""
    commit = f", commit {commit}" if commit else ", of no commit that is known"
    version = one_line(provenance["vcsbench"], 40)
    return f"vcsbench {version}{commit}{' with changes' if provenance['changed'] else ''}"


def main(arguments: Sequence[str]) -> int:
    """Open a bundle and return the exit code. A refused bundle leaves nothing."""
    archive, name, *_ = [*arguments, "", ""]
    try:
        if not archive:
            raise UserError("say which bundle: make import BUNDLE=january.tar.gz")
        parent = Path.cwd() / FOLDER
        is_new = not parent.exists()
        folder, manifest = unpack(Path(archive), name, Path.cwd())
        try:
            made = make_again(folder, manifest)
            lines = said(folder, manifest, provenance(PACKAGE.parent.parent, {}))
        except BaseException:
            shutil.rmtree(folder)
            if is_new:
                parent.rmdir()
            raise
    except (UserError, OSError) as error:
        print(one_line(error, 1000), file=sys.stderr)
        return 1
    except Exception as error:  # a stranger's data may raise anything in the page's code
        reason = one_line(repr(error))
        print(
            f"{one_line(archive)}: this vcsbench cannot show what is in it: {reason}",
            file=sys.stderr,
        )
        return 1
    print("\n".join(one_line(line, 1000) for line in lines))
    print(f"Report: {made[0] if len(made) == 2 else made[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
