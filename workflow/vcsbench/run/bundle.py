"""Pack measured studies into an archive, and import the archive of another vcsbench.

An imported bundle is data of a stranger: its files are checked, and stored in a folder of their own.
"""

import csv
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Self, TypeGuard

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import from_json

from vcsbench import __version__, words
from vcsbench.config.definitions import GLOSSARY
from vcsbench.config.models import Name
from vcsbench.config.study import load_study
from vcsbench.errors import UserError, sentence_of
from vcsbench.external import one_line, open_regular, read_bytes
from vcsbench.files import context_path, read_json, write_bytes
from vcsbench.plan.result_state import check_version, read_context
from vcsbench.report.page import build_index, build_page, read_entries
from vcsbench.report.results import read_results
from vcsbench.sources import archives
from vcsbench.sources.archives import ArchiveError, ContainedFolder, split_name
from vcsbench.statistics.baselines import NAME
from vcsbench.storages.file_trees import entries

PACKED, IMPORTED = Path("bundles"), Path("opened")
INSIDE = "vcsbench-bundle"
MANIFEST = f"{INSIDE}/manifest.json"
# 2: contexts have other keys.
LAYOUT = 2
ASK = "Ask for the bundle again."
FINDINGS = Path("config/published/findings.yaml")
SHARED = ("repositories", "loaded")
EXCLUDED = ("logs", *SHARED)
REBUILT = "again"

FOLDERS = ("baselines", "config", "reports", "results")
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~+@=,%-]{0,199}")
PATH_LENGTH, DEPTH = 400, 30
# Other files, above all pages, may run a stranger's scripts: they are checked and not stored.
DATA = {".csv", ".json", ".md", ".yaml", ".txt"}
# Against small bundles that expand to fill the disk.
EXPANDED_BYTES = 64 * 2**20
JSON_BYTES, CSV_BYTES = 16 * 2**20, 64 * 2**20
VALUES = 5_000_000


def _is_safe_name(name: object) -> TypeGuard[str]:
    """Return True if a relative path, or a cell's name, has only components that vcsbench writes."""
    return (
        isinstance(name, str)
        and len(name) <= PATH_LENGTH
        and name.count("/") < DEPTH
        and all(_COMPONENT.fullmatch(part) for part in name.split("/"))
    )


def _is_in_bundle(name: str) -> bool:
    return _is_safe_name(name) and "/" in name and name.split("/")[0] in FOLDERS


class PackedFile(BaseModel):
    """A file in the manifest."""

    bytes: Annotated[int, Field(le=CSV_BYTES)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """The first member of a bundle; `vcsbench` is the version that packed it."""

    layout: int
    vcsbench: str
    studies: Annotated[list[Name], Field(min_length=1)]
    files: dict[str, PackedFile]

    @model_validator(mode="after")
    def _can_be_shown(self) -> Self:
        for study in self.studies:
            if f"results/page/{study}.json" not in self.files:
                raise ValueError(f"it has no page of {study}")
        for name in self.files:
            if not _is_in_bundle(name):
                raise ValueError(f"{name!r} does not belong in a bundle")
            if self.files.keys() & {str(folder) for folder in PurePosixPath(name).parents}:
                raise ValueError(f"{name!r} is below another file")
        return self


def pack(name: str, studies: Sequence[str], root: Path) -> Path:
    """Pack studies, by default all with a report, into bundles/NAME.tar.gz, and return its path.

    The same results give the same archive. Raise a UserError if a study has no report, a file is
    missing, or another archive has the name.
    """
    studies = list(studies) or sorted(p.stem for p in (root / "results/page").glob("*.json"))
    if not studies:
        raise UserError("results: no report to pack. Make one with `make report`.")
    if name and not NAME.fullmatch(name):
        raise UserError(
            f"--name: {name!r} is no name of a bundle. Use up to 200 letters, digits, `.`, `_` and `-`, and "
            f"begin with a letter or digit."
        )
    files = sorted({file for study in studies for file in _files(study, root)})
    if odd := next((str(file) for file in files if not _is_in_bundle(str(file))), None):
        raise UserError(
            f"{one_line(repr(odd))}: this is no file of vcsbench. Remove it, and pack again."
        )
    if missing := next((file for file in files if not (root / file).is_file()), None):
        raise UserError(f"{missing}: the file is missing. `make report` makes it again.")
    content = _archive(root, files, studies)
    path = root / PACKED / f"{name or '-'.join(studies)}.tar.gz"
    if path.exists() and path.read_bytes() != content:
        raise UserError(f"{path}: there is another bundle of this name. Choose another --name.")
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, content)
    return path


def _files(study: str, root: Path) -> Iterator[Path]:
    page = Path("reports") / f"{study}.html"
    made_with = Path("results/page") / f"{study}.json"
    if not (NAME.fullmatch(study) and (root / page).is_file() and (root / made_with).is_file()):
        raise UserError(
            f"--study: {study!r} has no report. Make it by `make report STUDY={study}`."
        )
    definition = Path("config/studies") / f"{study}.yaml"
    numbers = (Path("config/published") / name for name in load_study(root / definition).numbers)
    yield from (page, definition, FINDINGS, GLOSSARY, *numbers)
    found: list[Path] = []
    # Unlike glob(), this raises for a folder that cannot be read.
    for folder in sorted((root / "results").iterdir()):
        if folder.name in SHARED:
            found += [path for path in folder.iterdir() if path.suffix == ".json"]
        elif folder.is_dir() and folder.name not in EXCLUDED:
            found += [path for path in folder.iterdir() if path.name.startswith(f"{study}.")]
            if (folder / study).is_dir():
                found += [Path(path) for path, _ in entries(folder / study)]
    for path in found:
        if path.is_file() and not path.name.startswith("."):
            yield path.relative_to(root)
    baselines = read_json(root / made_with).get("baselines")
    if not isinstance(baselines, list) or not all(map(_is_safe_name, baselines)):
        raise UserError(f"{made_with}: the file is damaged. `make report` makes it again.")
    for baseline in baselines:
        yield from (Path("baselines") / baseline / f"{study}.{end}" for end in ("csv", "json"))


def _archive(root: Path, files: Sequence[Path], studies: Sequence[str]) -> bytes:
    """Return the archive: the manifest, then the files by name, without owner or time."""
    contents = {file.as_posix(): (root / file).read_bytes() for file in files}
    for name in contents:
        if name.endswith(context_path("")):
            if not (context := read_context(root / name)):
                text = f"{root / name}: the file is damaged. `make report` makes it again."
                raise UserError(text)
            check_version(root / name, context)
    packed_files = {
        name: PackedFile(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    }
    manifest = Manifest(
        layout=LAYOUT, vcsbench=__version__, studies=list(studies), files=packed_files
    )
    members = {MANIFEST: manifest.model_dump_json(indent=1).encode()}
    members |= {f"{INSIDE}/{name}": content for name, content in contents.items()}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, mtime=0, fileobj=packed) as stream,
        tarfile.open(mode="w", fileobj=stream, format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def unpack_bundle(archive: Path, name: str, root: Path) -> list[str]:
    """Unpack a bundle to opened/NAME below `root`, rebuild its pages, and return lines about it.

    A refused bundle leaves nothing. Raise a UserError of one line if the archive is damaged, has an
    unexpected member or name, cannot be shown, or the folder exists.
    """
    name = name or archive.name.removesuffix(".gz").removesuffix(".tar")
    if not NAME.fullmatch(name):
        raise UserError(
            f"--name: {one_line(repr(name))} is no name of a folder. Give one, such as --name=january."
        )
    folder = root / IMPORTED / name
    if os.path.lexists(folder):
        raise UserError(f"{folder}: the folder exists. Remove it, or choose another --name.")
    with tempfile.TemporaryDirectory(dir=root, prefix=".opening-") as made:
        target = Path(made) / name
        target.mkdir()
        manifest = _read(archive, target)
        folder.parent.mkdir(exist_ok=True)
        shutil.move(target, folder)
    studies = manifest.studies
    page = folder / REBUILT / f"{studies[0] if len(studies) == 1 else 'index'}.html"
    files = f"{words.count_of(len(manifest.files), 'unchanged file')}, data in {folder}"
    return [one_line(line, 1000) for line in (files, f"Report: {page}")]


def _read(archive: Path, target: Path) -> Manifest:
    """Write the data of an archive to `target`, check it, and rebuild its pages."""
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
        # Readers of YAML have limits of their own.
        checks = {".json": (_check_json, JSON_BYTES), ".csv": (_check_csv, CSV_BYTES)}
        for name in manifest.files:
            if (path := target / name).suffix in checks and path.is_file():
                check, limit = checks[path.suffix]
                check(read_bytes(path, limit), name)
        try:
            _rebuild_pages(target, manifest)
        except OSError as error:  # of this machine, such as a full disk
            raise UserError(sentence_of(error, target)) from None
    except ArchiveError as error:
        message = f"cannot be read as a bundle: {error}. {ASK}"
    except gzip.BadGzipFile:
        message = f"is not compressed by gzip, so it is no bundle. {ASK}"
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None)
        remedy = "Check the path." if reason else ASK
        message = f"cannot be read as a bundle: {reason or one_line(error)}. {remedy}"
    except UserError as error:
        message = str(error).removeprefix(f"{shown}: ").replace(f"{target}/", "")
    except Exception as error:  # a stranger's data may raise anything in the code of the page
        message = f"this vcsbench cannot show it: {one_line(repr(error))}. {ASK}"
    else:
        return manifest
    raise UserError(one_line(f"{shown}: {message}", 1000))


def _extract(
    members: Iterator[archives.Member], contained: ContainedFolder, archive: str
) -> Manifest:
    """Write the files of the manifest. The archive must have exactly these, as they were packed."""
    manifest = _manifest(next(members, None), archive)
    missing = dict(manifest.files)
    for member in members:
        inside = member.name.decode("utf-8", "backslashreplace")
        name = inside.removeprefix(f"{INSIDE}/")
        if name == inside or member.kind != archives.FILE or name not in missing:
            raise UserError(
                f"{archive}: {one_line(repr(inside))} does not belong in a bundle. Nothing is unpacked."
            )
        packed = missing.pop(name)
        digest = hashlib.sha256()
        if member.size == packed.bytes:
            content = _passed_to(digest.update, member.content)
            if PurePosixPath(name).suffix in DATA:
                contained.add_file(split_name(name.encode()), content, mode=0o444)
            else:
                deque(content, maxlen=0)
        if digest.hexdigest() != packed.sha256:
            raise UserError(f"{archive}: {name} is damaged. {ASK}")
    if missing:
        raise UserError(f"{archive}: {min(missing)} is missing. {ASK}")
    return manifest


def _passed_to(function: Callable[[bytes], None], chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        function(chunk)
        yield chunk


def _manifest(first: archives.Member | None, archive: str) -> Manifest:
    if not first or first.name != MANIFEST.encode() or first.size > JSON_BYTES:
        raise UserError(f"{archive}: this is no bundle of vcsbench. Pack one by `make bundle`.")
    content = b"".join(first.content)
    _check_json(content, MANIFEST)
    try:
        manifest = from_json(content)
        # Another layout may have other fields.
        if isinstance(manifest, dict) and manifest.get("layout", LAYOUT) != LAYOUT:
            layout, packer = (one_line(manifest.get(key), 40) for key in ("layout", "vcsbench"))
            raise UserError(
                f"{archive}: the bundle has layout {layout}, and this vcsbench ({__version__}) knows "
                f"{LAYOUT}. Import it with the version that packed it ({packer}; "
                f"results/provenance in it has the commit)."
            )
        return Manifest.model_validate(manifest)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        reason = fault["msg"].removeprefix("Value error, ")
        reason = f"`{place}`: {reason}" if place else reason
    except ValueError as error:
        reason = str(error)
    raise UserError(f"{archive}: its manifest is damaged: {one_line(reason)}. {ASK}")


def _check_json(content: bytes, name: str) -> None:
    """Raise a UserError for a file that is too nested to read."""
    if content.count(b",") + content.count(b"[") + content.count(b"{") > VALUES:
        raise UserError(f"{name}: the file has more than {VALUES} values. {ASK}")


def _check_csv(content: bytes, name: str) -> None:
    """Raise a UserError for a file that is too wide to read, or has an unsafe name of a cell."""
    try:
        rows = csv.DictReader(io.StringIO(content.decode(), newline=""))
        columns = rows.fieldnames or []
        # csv.DictReader fills each short row.
        if len(columns) * (content.count(b"\n") + content.count(b"\r") + 1) > VALUES:
            raise UserError(f"{name}: the file has more than {VALUES} values. {ASK}")
        for row in rows if "cell" in columns else ():
            cell = row["cell"]
            if cell and not _is_safe_name(cell):
                raise UserError(f"{name}: '{one_line(cell)}' is not the name of a cell. {ASK}")
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{name}: the file is not CSV: {one_line(error)}. {ASK}") from None


def _rebuild_pages(folder: Path, manifest: Manifest) -> None:
    for study in manifest.studies:
        made_with = json.loads((folder / "results" / "page" / f"{study}.json").read_bytes())
        path = folder / "config" / "studies" / f"{study}.yaml"
        definition = load_study(path)
        # These are parts of paths.
        names = [*definition.tables, *definition.numbers, *definition.findings]
        for name in [*names, *made_with.get("baselines", [])]:
            if not _is_safe_name(name) or "/" in name:
                raise UserError(f"{path}: '{one_line(name)}' is not a name of vcsbench. {ASK}")
        results = read_results(definition, folder / "results", folder / FINDINGS, **made_with)
        page = folder / REBUILT / f"{study}.html"
        page.parent.mkdir(exist_ok=True)
        write_bytes(page, build_page(results).encode())
    index = folder / REBUILT / "index.html"
    write_bytes(index, build_index(read_entries(index.parent)).encode())
