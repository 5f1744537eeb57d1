"""Pack measured studies into an archive, and import the archive of another vcsbench.

An imported bundle is data of a stranger: it is unpacked into a new folder, and only data that the page needs.
"""

import json
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from vcsbench.config.study_reader import load_study
from vcsbench.errors import OPTION_BY_KEY, UserError, sentence_of
from vcsbench.external import one_line
from vcsbench.files import read_json, write_json, write_text
from vcsbench.plan.result_state import check_version, read_context
from vcsbench.report.index_page import build_index, make_record, read_entries
from vcsbench.report.page import build_page_with_charts
from vcsbench.report.results import read_results
from vcsbench.result_paths import CONTEXT
from vcsbench.statistics.baselines import BASELINE_NAME

PACKED, IMPORTED = Path("bundles"), Path("opened")
# The folder in an archive.
INSIDE = "vcsbench-bundle"
FINDINGS = Path("config/published/findings.yaml")
# Folders of results whose records belong to no study. The page shows the records.
SHARED = ("repositories", "loaded", "packed", "dumps")
# The nodes of jobs of a cluster. The page names those that were lost or rejected.
ASSIGNMENTS = "cluster/job*.assignment.json"
# The folder of the pages that were made again from an imported bundle.
REBUILT = "again"
# A small archive may unpack to more than the disk has.
UNPACKED_BYTES = 1 << 30
# The remedy for a larger one.
SINGLE_STUDIES = "single studies: make bundle STUDY=NAME"


def pack(name: str, studies: Sequence[str], root: Path) -> Path:
    """Pack studies into the archive bundles/NAME.tar.gz, and return the path of the archive.

    The archive has the page of each study and all results that the page is made from, so that unpack_bundle()
    can make the page again elsewhere. If `studies` is empty, all studies with a report are packed. If `name`
    is "", the archive is named after the studies, such as a-b.tar.gz. Raise a UserError if a study has no
    report, if a file is missing, unreadable or of an earlier version, if the archive exists, or if the import
    would refuse it as too large.
    """
    if not studies:
        # The rule of a report writes these files.
        studies = sorted(path.stem for path in (root / "results/page").glob("*.json"))
    if not studies:
        raise UserError("results: no report to pack. Make one with `make report`.")
    # The name becomes that of a file. The pattern of names of baselines excludes a slash, for example.
    if name and not BASELINE_NAME.fullmatch(name):
        raise UserError(
            f"{OPTION_BY_KEY['name']}: {name!r} is no name of a bundle. Use up to 200 letters, digits, "
            f"`.`, `_` and `-`, and begin with a letter or digit."
        )
    # Paths below `root`. Studies share files, such as the file of findings.
    files: set[Path] = set()
    for study in studies:
        files.update(_files_of_study(study, root))
    for file in files:
        _check_file(root, file)
    archive_path = root / PACKED / f"{name or '-'.join(studies)}.tar.gz"
    if archive_path.exists():
        raise UserError(f"{archive_path}: there is a bundle of this name. Choose another --name.")
    # The import unpacks no more than UNPACKED_BYTES (_extract).
    size = sum((root / file).stat().st_size for file in files)
    if size > UNPACKED_BYTES:
        remedy = "Hand over the folder results/ by other means"
        if len(studies) > 1:
            remedy = f"Pack {SINGLE_STUDIES}"
        raise UserError(
            f"{archive_path}: the files have {size:,} bytes, and `make import` takes at most "
            f"{UNPACKED_BYTES:,}. {remedy}."
        )
    archive_path.parent.mkdir(exist_ok=True)
    # The archive gets its name when it is complete: this process may be killed while it packs.
    unfinished = archive_path.with_suffix(".new")
    # The import refuses links. So the files behind links are packed as plain files.
    with tarfile.open(unfinished, "w:gz", dereference=True) as archive:
        for file in sorted(files):
            archive.add(root / file, f"{INSIDE}/{file}", filter=_without_owner)
    return unfinished.rename(archive_path)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid, member.gid = 0, 0
    member.uname, member.gname = "", ""
    return member


def _check_file(root: Path, file: Path) -> None:
    """Raise a UserError if the file `root`/`file` is missing, or if the other vcsbench could not show it.

    Only the content of contexts is checked.
    """
    if not (root / file).is_file():
        raise UserError(f"{file}: the file is missing. `make report` makes it again.")
    if file.name.endswith(CONTEXT):
        context = read_context(root / file)
        if context is None:
            raise UserError(f"{root / file}: unreadable. `make report` makes it again.")
        check_version(root / file, context)


def _files_of_study(study: str, root: Path) -> Iterator[Path]:
    """Yield the page of a study and the files that the page is made from, as paths below `root`.

    Raise a UserError if the study has no report, or if the record of its page is damaged.
    """
    page = Path("reports") / f"{study}.html"
    # It has the arguments with which the page was made: {"params": {"baselines": ["january"], ...}, ...}.
    record_file = Path("results/page") / f"{study}.json"
    # `study` may be any text of the user, such as "../x", so it is checked before it becomes a path. Names of
    # studies have no slash, as those of saved baselines.
    can_be_study = BASELINE_NAME.fullmatch(study) is not None
    has_report = can_be_study and (root / page).is_file() and (root / record_file).is_file()
    if not has_report:
        raise UserError(
            f"{OPTION_BY_KEY['studies']}: {study!r} has no report. Make it by `make report STUDY={study}`."
        )
    definition = Path("config/studies") / f"{study}.yaml"
    yield from (page, definition, FINDINGS)
    for name in load_study(root / definition).numbers:
        yield Path("config/published") / name
    for path in _results_of_study(study, root / "results"):
        # A name that begins with a dot belongs to a temporary file, which a run is writing now.
        if path.is_file() and not path.name.startswith("."):
            yield path.relative_to(root)
    # The page compares the results with saved baselines, each of which has two files for a study.
    params = read_json(root / record_file).get("params")
    baselines = params.get("baselines") if isinstance(params, dict) else None
    if not isinstance(baselines, list):
        raise UserError(f"{record_file}: the file is damaged. `make report` makes it again.")
    for baseline in baselines:
        yield Path("baselines") / baseline / f"{study}.csv"
        yield Path("baselines") / baseline / f"{study}.json"


def _results_of_study(study: str, results: Path) -> list[Path]:
    """Return the paths of a study's results without logs, and of the results that all studies share.

    Results of the study `x` are, for example, measurements/x.csv and tables/x/log.csv. All studies share the
    records of repositories and of cluster nodes. Some of the paths are folders.
    """
    paths = list(results.glob(ASSIGNMENTS))
    # Unlike glob(), iterdir() raises an error for a folder that cannot be read, so that nothing is left out.
    for folder in sorted(results.iterdir()):
        if folder.name in SHARED:
            paths += folder.rglob("*.json")
        elif folder.is_dir() and folder.name != "logs":
            # In such a folder, a study has a file (x.csv), a folder (x), or both.
            paths += [path for path in folder.iterdir() if path.name.startswith(f"{study}.")]
            if (folder / study).is_dir():
                paths += sorted((folder / study).rglob("*"))
    return paths


def unpack_bundle(archive: Path, name: str, root: Path) -> list[str]:
    """Unpack a bundle to opened/NAME in the checkout `root`, make its pages again, and return two lines.

    The lines have the folder of the data and the path of the report. If `name` is "", NAME is the name of the
    archive without .tar.gz. Raise a UserError if the folder exists or cannot have this name, or if the
    archive is damaged or cannot be shown. After an error, nothing that was unpacked is left.
    """
    folder_name = name or archive.name.removesuffix(".gz").removesuffix(".tar")
    if not BASELINE_NAME.fullmatch(folder_name):
        raise UserError(
            f"{OPTION_BY_KEY['name']}: {one_line(repr(folder_name))} is no name of a folder. "
            f"Give one, such as january."
        )
    folder = root / IMPORTED / folder_name
    if folder.exists():
        raise UserError(f"{folder}: the folder exists. Remove it, or choose another --name.")
    with tempfile.TemporaryDirectory(dir=root, prefix=".opening-") as temporary:
        _extract(archive, Path(temporary))
        unpacked = Path(temporary) / INSIDE
        # Pages of a stranger may have scripts. So the pages are removed, and made again from the data.
        shutil.rmtree(unpacked / "reports", ignore_errors=True)
        studies = sorted(path.stem for path in (unpacked / "results/page").glob("*.json"))
        if not studies:
            raise UserError(f"{archive}: this is no bundle of vcsbench. Pack one by `make bundle`.")
        _make_pages(archive, unpacked, studies)
        folder.parent.mkdir(exist_ok=True)
        shutil.move(unpacked, folder)
    page = studies[0] if len(studies) == 1 else "index"
    return [f"data in {folder}", f"Report: {folder / REBUILT / f'{page}.html'}"]


def _extract(archive: Path, target: Path) -> None:
    """Unpack an archive from a stranger to the folder `target`.

    Raise UserError for a damaged archive, a link or a device, a path that leads out of `target`, and content
    of more than UNPACKED_BYTES. The files before a refused one stay in `target`.
    """
    # tarfile refuses dangerous paths only from this version on.
    if not hasattr(tarfile, "data_filter"):
        raise UserError("make import: Python is too old. Install Python 3.11.4 or later.")
    remedy = "Ask for the bundle again."
    try:
        with tarfile.open(archive, "r:gz") as opened:
            unpacked_bytes = 0
            for member in opened:
                # A file is not written before this check, because its content could fill the disk.
                unpacked_bytes += member.size
                if unpacked_bytes > UNPACKED_BYTES:
                    limit = f"it unpacks to more than {UNPACKED_BYTES:,} bytes"
                    raise UserError(f"{archive}: {limit}. Ask for bundles of {SINGLE_STUDIES}.")
                # The data filter refuses paths and links that lead out of the folder, except through links to
                # links (CVE-2025-4517). A bundle has no links, so each link is refused here.
                if not (member.isreg() or member.isdir()):
                    member_name = one_line(repr(member.name))
                    raise UserError(f"{archive}: {member_name} is no plain file. {remedy}")
                opened.extract(member, target, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise UserError(
            f"{archive}: cannot be read as a bundle: {one_line(error)}. {remedy}"
        ) from None
    except OSError as error:
        raise UserError(sentence_of(error, archive)) from None


def _make_pages(archive: Path, folder: Path, studies: Sequence[str]) -> None:
    """Make the page of each study again, and an index of the pages, from the unpacked data in `folder`.

    Raise UserError for data that this version cannot show. The error names the `archive`.
    """
    pages = folder / REBUILT
    pages.mkdir(exist_ok=True)
    records = folder / "results/page"
    try:
        for study in studies:
            # The page was first made with these arguments: {"baselines": [...], ...}.
            record = records / f"{study}.json"
            params = json.loads(record.read_bytes())["params"]
            definition = load_study(folder / "config/studies" / f"{study}.yaml")
            results = read_results(definition, folder / "results", folder / FINDINGS, **params)
            page, facts = build_page_with_charts(results, folder / "results/charts" / study)
            write_text(pages / f"{study}.html", page)
            write_json(record, make_record(params, facts))
        write_text(pages / "index.html", build_index(read_entries(pages, records)))
    except UserError as error:
        # The temporary folder is gone when the user reads the error.
        reason = str(error).replace(f"{folder}/", "")
        raise UserError(f"{archive}: {reason}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        # Files of another version have other keys or values. A stranger's JSON can be nested too deeply.
        reason = one_line(repr(error))
        raise UserError(
            f"{archive}: this version of vcsbench cannot show it: {reason}. Import it with the version that "
            f"packed it (results/provenance in it has the commit)."
        ) from None
