"""Remove all that vcsbench made for a checkout: results, repositories, and files on cluster nodes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench.axes.storage_axes import IN_GUEST, TO_MAKE
from vcsbench.config.configuration import source_of_value
from vcsbench.config.models import FolderSettings, Settings
from vcsbench.config.validation import validate
from vcsbench.errors import UserError, sentence_of
from vcsbench.run import workflow
from vcsbench.run.cluster import clean_nodes
from vcsbench.storages import workdir
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import WorkDir

# A file of the checkout, which stays.
README = "README.md"


def work_dirs(settings: Settings | FolderSettings, root: Path) -> list[WorkDir]:
    """Return vcsbench's work folders below the configured folders, such as /var/tmp/vcsbench-1a2b3c4d."""
    folders = [*settings.storages.values(), settings.scratch]
    for folder in settings.filesystems.values():
        # TO_MAKE and IN_GUEST stand for a file system that is made for each cell-round.
        if folder not in (TO_MAKE, IN_GUEST):
            folders.append(folder)
    work_folders = [WorkDir(folder, root) for folder in folders]
    # Two storages may be one folder.
    return list({work_folder.path: work_folder for work_folder in work_folders}.values())


def clean_checkout(raw: Mapping[str, object], root: Path, files: Sequence[Path]) -> list[str]:
    """Remove everything that vcsbench made for a checkout, and return the lines to print.

    This is: processes that a killed run left, files on cluster nodes, run folders (temporary folders of
    jobs), the work folder on each storage, and the content of results/. A line is, for example, "removed
    /var/tmp/vcsbench-1a2b3c4d", or the reason why a work folder remains. Raise a UserError if a workflow run
    works in the checkout, or a process in one of its work folders.
    """
    # Only the folders in the configuration are checked, so that a fault elsewhere does not prevent cleaning.
    settings = validate(raw, FolderSettings, lambda keys: source_of_value(files, keys, raw))
    with workflow.checkout_lock(root):
        workflow.end_processes(root)
        lines = clean_nodes(root)
        # [], because work folders are removed as a whole below.
        lines += [f"removed {path}" for path in workdir.remove_abandoned(root, [])]
        work_folders = work_dirs(settings, root)
        # All folders are locked before the first one is removed. If a process works in one of them, all stay.
        # The locks end with this process.
        for work_folder in work_folders:
            work_folder.lock()
        for work_folder in work_folders:
            if os.path.lexists(work_folder.path):
                lines.append(_remove_work_dir(work_folder))
        results = root / "results"
        if results.is_symlink():
            # The folder behind the link is the user's.
            lines.append(f"removed the link {results}; {results.resolve()} remains")
            results.unlink()
        else:
            made = [path for path in results.glob("*") if path.name != README]
            for path in made:
                remove_path(path)
            if made:
                lines.append(f"removed all but {README} in {results}")
    return lines or ["there is nothing to remove"]


def _remove_work_dir(work_folder: WorkDir) -> str:
    """Remove a work folder, and return the line to print. An error becomes a line, too."""
    try:
        work_folder.remove()
    except UserError as error:
        return str(error)
    except OSError as error:
        # The storage is read-only.
        return sentence_of(error, work_folder.path)
    if os.path.lexists(work_folder.path):
        return f"{work_folder.path} remains: it has files that vcsbench did not make"
    return f"removed {work_folder.path}"
