"""Define the axes `storage` of repositories and `filesystem` of working copies and trees."""

import os
from collections.abc import Mapping, Sequence
from functools import cache

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import FILESYSTEM_AXIS, STORAGE_AXIS
from vcsbench.config.models import unknown_name
from vcsbench.errors import UserError
from vcsbench.files import why_no_file
from vcsbench.records import Recipe, RecipeFilesystem
from vcsbench.storages import guest
from vcsbench.storages.cell_filesystem import MAKEABLE, REFLINK_KINDS, why_cannot_make
from vcsbench.storages.filesystems import IN_MEMORY, lacks_journal, mounted_at, why_unmounted
from vcsbench.storages.workdir import resolve

# In place of a folder: vcsbench makes the file system, or a guest has it.
TO_MAKE, IN_GUEST = "make", "guest"
# The value of the axis `filesystem` that stands for the file system of the storage under test.
OF_STORAGE = "storage"
# It replaces an ext4 without a journal (_filesystem_on_storage).
INSTEAD = "ext4"
# The kernel's names of each kind of file system.
FILESYSTEM_NAMES: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in MAKEABLE}
FILESYSTEM_NAMES["nfs"] = ("nfs", "nfs4")
LOOP = """A file system that vcsbench makes on a disk lies in an image on the storage, behind a loop device
with direct I/O. Its journal, allocation and metadata are its own; its writes reach the storage's disk."""
IN_RAM = "A tmpfs has no image: its files lie in RAM, and are never cold."


def _storage_keys(storage: str, env: Environment) -> Recipe:
    """Return the storage of a cell: `{"storage": {"name": "raid", "path": "/mnt/raid", "shelf": "raid"}}`.

    Without a value on the axis, a cell has the setting `storage` of the configuration. If several names have
    one folder, `shelf` is the first of these names: cells of all these storages share the copies of
    repositories in the folder. Raise UserError for a storage that the configuration lacks.
    """
    settings = env.config.settings
    folders = settings.storages
    name = storage or settings.storage
    if name not in folders:
        raise UserError(
            f"{env.config.source_of(['storages'])}: `storages.{name}` is missing, on which the grid "
            f"measures. Add a folder, or use in the grid only {', '.join(folders)}."
        )
    # Two names can lead to one folder by links or relative paths, so resolved paths are compared.
    paths = {other: resolve(folder, env.root) for other, folder in folders.items()}
    with_this_folder = [other for other, path in paths.items() if path == paths[name]]
    return {"storage": {"name": name, "path": folders[name], "shelf": with_this_folder[0]}}


def _filesystem_keys(filesystem: str, env: Environment) -> Recipe:
    """Return the file system of a cell, by its name on the axis, as a key of its recipe; {} without a name.

    Example: `{"filesystem": {"make": "", "root": "/srv/files", "mounted": ["xfs", "/srv"]}}`. `make` is the
    kind of a file system that vcsbench makes, "" for any other. `root` is the folder below which the cell
    works. `mounted` has the kind and the mount point of an existing file system. Raise UserError for a name
    that the configuration lacks, a folder that contradicts its name, or the reserved name `storage`.
    """
    if not filesystem:
        return {}
    settings = env.config.settings
    # On the axis, this name stands for the storage, so a configured folder would never be measured.
    if OF_STORAGE in settings.filesystems:
        raise env.config.error(
            ["filesystems", OF_STORAGE], "this name is reserved. Use another name."
        )
    # 1. The file system of a storage, or one that vcsbench makes there. The storage of the cell is not known
    # here. So this takes the default storage, and use_cell_storage() replaces it later.
    default_storage = str(resolve(settings.storages[settings.storage], env.root))
    on_storage = _filesystem_on_storage(filesystem, default_storage, env)
    if on_storage is not None:
        return {"filesystem": on_storage}
    unknown = unknown_name([filesystem], [OF_STORAGE, *settings.filesystems])
    if unknown:
        raise UserError(f"{env.config.source_of(['filesystems'])}: `filesystems` has no {unknown}")
    folder_or_word = settings.filesystems[filesystem]
    file = env.config.source_of(["filesystems", filesystem])
    key = f"{file}: `filesystems.{filesystem}`"
    # 2. `nfs: guest`: a virtual machine has the file system.
    if folder_or_word == IN_GUEST:
        return {"filesystem": _filesystem_in_guest(filesystem, key, env)}
    # 3. `xfs: /srv/files`: the file system of a folder.
    return {"filesystem": _existing_filesystem(filesystem, folder_or_word, key, env)}


def _filesystem_in_guest(name: str, key: str, env: Environment) -> RecipeFilesystem:
    """Return the file system of a virtual machine (guest), such as `nfs`.

    Raise UserError, which begins with `key`, if the guest has no file system of this name.
    """
    if name not in guest.FOLDERS:
        folders = " and ".join(guest.FOLDERS)
        raise UserError(f"{key}: a guest has {folders}, and no {name}. Use one of these.")
    return {
        "make": "",
        # The folder inside the guest.
        "root": guest.FOLDERS[name],
        # The kind in the image of the file system. NFS exports it.
        "guest": guest.FILESYSTEM_KIND,
        # The folder of the host for the image.
        "scratch": str(resolve(env.config.settings.scratch, env.root)),
    }


def use_cell_storage(recipe: Recipe, filesystem: str, env: Environment) -> None:
    """Replace a file system on the default storage by one on the storage of the cell, in the cell's recipe.

    The axes set the keys of a recipe one by one, so the axis `filesystem` has set its key for the default
    storage (_filesystem_keys). `filesystem` is the cell's name on this axis.
    """
    if not filesystem:
        return
    storage = str(resolve(recipe["storage"]["path"], env.root))
    on_storage = _filesystem_on_storage(filesystem, storage, env)
    # None is a file system elsewhere, which is the same for all storages.
    if on_storage is not None:
        recipe["filesystem"] = on_storage


def _filesystem_on_storage(
    filesystem: str, storage: str, env: Environment
) -> RecipeFilesystem | None:
    """Return the file system of a storage, or one that vcsbench makes there; None for a name of another kind.

    `storage` is the folder of the storage, such as /var/tmp. The name `storage` stands for its own file
    system (`make` is ""). For a name with the value `make` in the configuration, vcsbench makes one:
    `{"make": "xfs", "root": "/var/tmp", "mounted": []}`.
    """
    if filesystem == OF_STORAGE:
        # An ext4 without a journal does not reuse the inodes of removed files for minutes. After a run has
        # removed its tree, the next tree takes several times as long. So vcsbench makes an ext4 with a
        # journal there (INSTEAD), if it can.
        if lacks_journal(storage) and not why_cannot_make(INSTEAD):
            return {"make": INSTEAD, "root": storage, "mounted": []}
        return {"make": "", "root": storage, "mounted": _mounted(storage)}
    # `xfs: make`: vcsbench makes an xfs in an image on the storage, and a tmpfs in RAM.
    if env.config.settings.filesystems.get(filesystem) == TO_MAKE:
        return {"make": filesystem, "root": storage, "mounted": []}
    return None


def _existing_filesystem(name: str, folder: str, key: str, env: Environment) -> RecipeFilesystem:
    """Return the file system at a configured folder. Raise UserError if the folder contradicts its name.

    `name` is the name in the configuration, such as `xfs` or `backup`. If the name is a kind of file system,
    the folder must be on this kind. The error begins with `key`: "config/config.yaml: `filesystems.xfs`".
    """
    root = str(resolve(folder, env.root))
    mounted = _mounted(root)
    kind, _ = mounted
    # A folder that cannot be used is no error, because _why_not_filesystem() then skips its cells. A missing
    # folder has the kind of the disk on which its path would be, so that kind is not compared.
    is_usable = os.path.isdir(root) and not why_unmounted(root)
    # A folder whose name is no kind, such as `backup`, may be on any kind.
    allowed_kinds = FILESYSTEM_NAMES.get(name, (kind,))
    if is_usable and kind not in allowed_kinds:
        raise UserError(
            f"{key}: {root} is {kind}, not {name}. Call it {kind}, or use a folder on {name}."
        )
    return {"make": "", "root": root, "mounted": mounted}


def _why_not_filesystem(name: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot have its file system on this machine, in a clause; "" if it can.

    `name` is not used: it is the cell's own value, and the recipe may have its file system from a default.
    """
    filesystem = recipe.get("filesystem")
    if not filesystem:
        return ""
    # With `clones`, the command makes copies that share the blocks of their originals (reflinks).
    needs_reflinks = bool(recipe.get("clones"))
    # 1. A file system in a virtual machine.
    if "guest" in filesystem:
        unavailable = guest.why_unavailable(env.root)
        if unavailable:
            return unavailable
        return f"{guest.FILESYSTEM_KIND} has no reflinks" if needs_reflinks else ""
    # 2. A file system that vcsbench makes.
    kind_to_make = filesystem["make"]
    if kind_to_make:
        if needs_reflinks and kind_to_make not in REFLINK_KINDS:
            return f"{kind_to_make} has no reflinks"
        return why_cannot_make(kind_to_make)
    # 3. An existing folder.
    kind, _ = filesystem["mounted"]
    if needs_reflinks and kind not in REFLINK_KINDS:
        return f"{kind} has no reflinks"
    return _why_unusable_folder(filesystem["root"], recipe, env)


def _why_unusable_folder(root: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot write to its folder on an existing file system, in a clause; "" if it can."""
    # If a mount of /etc/fstab is missing at `root`, files would go to the disk below the mount point, under a
    # wrong label.
    missing_mount = why_unmounted(root)
    if missing_mount:
        return missing_mount
    if not os.path.isdir(root):
        return f"{root} is no folder"
    # The folder of the storage is not tried here: trials.try_folders() does that before a run, with an error
    # that names the right key.
    is_storage = root == str(resolve(recipe["storage"]["path"], env.root))
    # A report of existing results makes no file, and the nodes of a cluster have folders of their own.
    measures_here = env.config.settings.measure == "all" and not env.is_elsewhere
    if measures_here and not is_storage:
        refused = _why_no_file(root)
        if refused:
            return f"{root} cannot be written ({refused}); use another folder in `filesystems`"
    return ""


def _limits(
    values: Sequence[str], guests: Sequence[str], measured: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return a note on made file systems in images, and one on those in RAM, if they are measured."""
    without_image = (OF_STORAGE, *guest.FOLDERS, *IN_MEMORY)
    notes = []
    if any(value not in without_image for value in values):
        notes.append(LOOP)
    if any(value in IN_MEMORY for value in values):
        notes.append(IN_RAM)
    return notes


# Each call reads all mounts of the machine.
_mounted = cache(mounted_at)
# Each call makes a file, and removes it.
_why_no_file = cache(why_no_file)


AXES = (
    Axis(
        STORAGE_AXIS,
        values_by_word=lambda env: {"storages": list(env.config.settings.storages)},
        source="`storages`",
        recipe_keys=_storage_keys,
    ),
    Axis(
        FILESYSTEM_AXIS,
        values_by_word=lambda env: {
            "filesystems": list(env.config.settings.filesystems),
            "storage and filesystems": [OF_STORAGE, *env.config.settings.filesystems],
        },
        source="`filesystems`",
        recipe_keys=_filesystem_keys,
        why_not=_why_not_filesystem,
        limits=_limits,
    ),
)
