"""Remove all that vcsbench made for a checkout: results, repositories, and files on cluster nodes."""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench.axes.storage_axes import IN_GUEST, TO_MAKE
from vcsbench.config.configuration import source_of_value
from vcsbench.config.models import FolderSettings, Settings
from vcsbench.config.validation import validate
from vcsbench.errors import UserError, printable, sentence_of
from vcsbench.run import workflow
from vcsbench.run.cluster import clean_nodes
from vcsbench.storages import workdir
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import WorkDir

# A file of the checkout, which stays.
README = "README.md"


def work_dirs(settings: Settings | FolderSettings, root: Path) -> list[WorkDir]:
    """Return vcsbench's folders on all configured storages and file systems, each once."""
    folders = [*settings.storages.values(), settings.scratch]
    for folder in settings.filesystems.values():
        # The words TO_MAKE and IN_GUEST stand for a file system that is made for each cell-round.
        if folder not in (TO_MAKE, IN_GUEST):
            folders.append(folder)
    places = [WorkDir(folder, root) for folder in folders]
    return list({place.path: place for place in places}.values())


def clean_checkout(raw: Mapping[str, object], root: Path, files: Sequence[Path]) -> list[str]:
    """Remove everything that vcsbench made for a checkout, and return the lines to print.

    This is: processes that a killed run left, files on cluster nodes, run folders, the work folders on each
    storage (also those of checkouts that no longer exist), and the content of results/. A line is, for
    example, "removed /var/tmp/vcsbench-1a2b3c4d", or the reason why a work folder remains. `raw` is the
    merged configuration of `files`, which errors name. Raise a UserError if a workflow run works in the
    checkout, or a process in one of its work folders.
    """
    # Only the folders in the configuration are checked, so that a fault elsewhere does not prevent cleaning.
    settings = validate(raw, FolderSettings, lambda keys: source_of_value(files, keys, raw))
    with workflow.checkout_lock(root):
        workflow.end_processes(root)
        lines = clean_nodes(root)
        # Only run folders, because no work folder is given ([]): these are removed as a whole below.
        lines += [f"removed {path}" for path in workdir.remove_abandoned(root, [])]
        configured = work_dirs(settings, root)
        # All folders are locked before the first one is removed, so a lock that is taken leaves all of them.
        for place in _lock_work_dirs(configured):
            if os.path.lexists(place.path):
                lines.append(_remove_work_dir(place))
        lines += _list_hidden(configured)
        results = root / "results"
        if results.is_symlink():
            # The folder behind it is the user's.
            lines.append(f"removed the link {results}; {results.resolve()} remains")
            results.unlink()
        else:
            made = [path for path in results.glob("*") if path.name != README]
            for path in made:
                remove_path(path)
            if made:
                lines.append(f"removed all but {README} in {results}")
    return lines or ["there is nothing to remove"]


def _lock_work_dirs(places: Sequence[WorkDir]) -> list[WorkDir]:
    """Lock the work folders `places`, and abandoned ones on the same storages, and return all of them.

    A work folder is abandoned if its checkout does not exist. Raise a UserError if another process works in
    one of `places`.
    """
    locked = list(places)
    for place in places:
        place.lock()
        for abandoned in workdir.abandoned_workdirs(place.storage):
            if abandoned.may_have_hidden_checkout():
                continue
            # The checkout may exist in another container, which may be measuring in this folder now. Then the
            # lock fails, and the folder is left out.
            with suppress(UserError):
                abandoned.lock()
                locked.append(abandoned)
    return locked


def _remove_work_dir(place: WorkDir) -> str:
    """Remove a work folder, and return the line to print: an error of one folder does not keep the others."""
    try:
        place.remove()
    except UserError as error:
        return str(error)
    except OSError as error:
        # The storage is read-only.
        return sentence_of(error, place.path)
    if os.path.lexists(place.path):
        return f"{place.path} remains: it has files that vcsbench did not make"
    return f"removed {place.path}"


def _list_hidden(places: Sequence[WorkDir]) -> list[str]:
    """Return a line for each work folder next to `places` that stays because its checkout may exist."""
    lines = []
    for place in places:
        for abandoned in workdir.abandoned_workdirs(place.storage):
            if abandoned.may_have_hidden_checkout():
                command = f"rm -r {shlex.quote(str(abandoned.path))}"
                lines.append(
                    f"{abandoned.path} remains: its checkout {printable(abandoned.owner)} may be on a disk "
                    f"that is not mounted, or in a container. If it is gone for good: {command}"
                )
    return lines
