"""Remove all that vcsbench made for a checkout: results, repositories, and files on cluster nodes."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench.axes.storage_axes import IN_GUEST, TO_MAKE
from vcsbench.config.configuration import where
from vcsbench.config.models import FolderSettings, Settings
from vcsbench.config.validation import validate
from vcsbench.errors import UserError
from vcsbench.run import workflow
from vcsbench.run.cluster import clean_nodes
from vcsbench.storages import workdir
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import WorkDir

# It belongs to the repository, and describes the files of a folder of results.
README = "README.md"


def work_dirs(settings: Settings | FolderSettings, root: Path) -> list[WorkDir]:
    """Return vcsbench's folders on all configured storages and file systems, each once."""
    folders = [*settings.storages.values(), settings.scratch]
    for folder in settings.filesystems.values():
        # These words stand for a file system that is made for each cell-round.
        if folder not in (TO_MAKE, IN_GUEST):
            folders.append(folder)
    places = [WorkDir(folder, root) for folder in folders]
    return list({place.path: place for place in places}.values())


def clean_checkout(raw: Mapping[str, object], root: Path, files: Sequence[Path]) -> list[str]:
    """Remove everything that vcsbench made for a checkout, and return the lines to print.

    It ends left processes, and removes files on cluster nodes and run folders in the temporary folder. It
    also removes the work folder on each storage, and the content of results/. Work folders of checkouts that
    no longer exist are removed, too. A work folder with files of somebody else remains. An example of a line
    is "removed /var/tmp/vcsbench-1a2b3c4d"; the only line is "there is nothing to remove" if nothing was
    removed.

    Only the folders in the merged configuration `raw` are checked, so that a fault elsewhere does not prevent
    cleaning. `files` are named in errors. Raise a UserError if a workflow run works in the checkout.
    """
    settings = validate(raw, FolderSettings, lambda keys: where(files, keys))
    with workflow.checkout_lock(root):
        workflow.end_processes(root)
        lines = clean_nodes(root)
        lines += [f"removed {path}" for path in workdir.remove_abandoned(root, [])]
        for place in _lock_work_dirs(work_dirs(settings, root)):
            if not os.path.lexists(place.path):
                continue
            place.remove()
            if os.path.lexists(place.path):
                lines.append(f"{place.path} remains: it has files that vcsbench did not make")
            else:
                lines.append(f"removed {place.path}")
        lines += _remove_results(root / "results")
    return lines or ["there is nothing to remove"]


def _lock_work_dirs(places: Sequence[WorkDir]) -> list[WorkDir]:
    """Lock the work folders `places` of this checkout, and abandoned work folders on the same storages.

    A work folder is abandoned if its checkout does not exist here. Return all locked folders. A folder that
    does not exist has no lock, but is returned, too. Raise a UserError if another process works in a folder
    of this checkout.
    """
    locked = list(places)
    for place in places:
        place.lock()
        for abandoned in workdir.abandoned_workdirs(place.storage):
            # Its checkout may exist in another container, which may be measuring in this folder now. Then the
            # lock fails, and the folder is left out.
            with suppress(UserError):
                abandoned.lock()
                locked.append(abandoned)
    return locked


def _remove_results(results: Path) -> list[str]:
    """Remove the content of results/, and return a line about it; [] without any content."""
    if results.is_symlink():
        # The folder behind it is the user's.
        line = f"removed the link {results}; {results.resolve()} remains"
        results.unlink()
        return [line]
    made = [path for path in results.glob("*") if path.name != README]
    for path in made:
        remove_path(path)
    return [f"removed all but {README} in {results}"] if made else []
