"""All that there is of measured studies in one archive, which another vcsbench opens (run.opening).

`python -m vcsbench.run.bundle NAME [STUDY]...` packs some studies, or all that have a report.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vcsbench import __version__
from vcsbench.config import glossary
from vcsbench.config.study import load_study
from vcsbench.errors import UserError
from vcsbench.files import write_bytes

FOLDER = Path("bundles")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# All members lie below this, whatever the archive is called.
INSIDE = "vcsbench-bundle"
MANIFEST = f"{INSIDE}/manifest.json"
# Of the archive's layout: another number is for another vcsbench.
LAYOUT = 1
FINDINGS = Path("config/published/findings.yaml")
# What is of all studies: how their repositories were made.
SHARED = ("repositories", "loaded")
# What is of no use without the machine.
LEFT_OUT = ("logs", *SHARED)


def pack(name: str, studies: Sequence[str], root: Path) -> Path:
    """Pack what there is of some studies below `root` (without any, of all that have a report), and return
    the archive's path, bundles/NAME.tar.gz. The same results give the same archive.

    Raises a UserError where a study has no report, a file is not what was written, or another archive of
    that name is there: nothing is overwritten.
    """
    wanted = list(studies) or sorted(path.stem for path in (root / "results/page").glob("*.json"))
    if not wanted:
        raise UserError("results: there is no report to pack; `make report` makes one")
    name = name or "-".join(wanted)
    if not NAME.fullmatch(name):
        raise UserError(
            f"NAME={name}: a bundle's name has letters, digits, `.`, `_` and `-`, and begins with a letter "
            f"or a digit; say NAME=january, for instance"
        )
    files = sorted({file for study in wanted for file in _files(study, root)})
    if missing := next((file for file in files if not (root / file).is_file()), None):
        raise UserError(f"{missing}: the file is missing. `make report` makes it again.")
    content = _archive(root, files, wanted)
    path = root / FOLDER / f"{name}.tar.gz"
    if path.exists() and path.read_bytes() != content:
        raise UserError(
            f"{path}: is there already with something else in it, and is not overwritten; choose another NAME"
        )
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, content)
    return path


def _files(study: str, root: Path) -> Iterator[Path]:
    """The files of a study, relative to `root`."""
    page = Path("reports") / f"{study}.html"
    made_with = Path("results/page") / f"{study}.json"
    if not (NAME.fullmatch(study) and (root / page).is_file() and (root / made_with).is_file()):
        raise UserError(
            f"STUDY={study}: has no report to pack; `make report STUDY={study}` makes it"
        )
    own = Path("config/studies") / f"{study}.yaml"
    published = (Path("config/published") / number for number in load_study(root / own).numbers)
    yield from (page, own, FINDINGS, glossary.FILE, *published)
    for folder in sorted((root / "results").iterdir()):
        if folder.name in LEFT_OUT or not folder.is_dir():
            continue
        found = [*folder.glob(f"{study}.*"), *(folder / study).rglob("*")]
        yield from (path.relative_to(root) for path in found if _is_kept(path))
    for shared in SHARED:
        found = [*(root / "results" / shared).glob("*.json")]
        yield from (path.relative_to(root) for path in found if _is_kept(path))
    for name in json.loads((root / made_with).read_bytes())["baselines"]:
        yield from (Path("baselines") / name / f"{study}.{end}" for end in ("csv", "json"))


def _is_kept(path: Path) -> bool:
    """Whether it is a file of results, and none that tells something of another."""
    return path.is_file() and not path.name.startswith(".")


def _archive(root: Path, files: Sequence[Path], studies: Sequence[str]) -> bytes:
    """The archive: the manifest first, then the files in the order of their names, without owner or time."""
    contents = {file.as_posix(): (root / file).read_bytes() for file in files}
    manifest = {
        "layout": LAYOUT,
        "vcsbench": __version__,
        "studies": list(studies),
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        },
    }
    packed = io.BytesIO()
    # The time of packing and the file's name would be in its head.
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, mtime=0, fileobj=packed) as stream,
        tarfile.open(mode="w", fileobj=stream, format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
        for name, content in contents.items():
            _add(archive, f"{INSIDE}/{name}", content)
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))


def main(arguments: Sequence[str]) -> int:
    """Pack a bundle; returns the exit code."""
    name, *studies = arguments or [""]
    try:
        wanted = [study for study in " ".join(studies).replace(",", " ").split() if study != "all"]
        path = pack(name, wanted, Path.cwd())
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    size = path.stat().st_size / 2**20
    print(
        f"packed {path} ({size:.1f} MiB); to look into it elsewhere: make import BUNDLE={path.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
