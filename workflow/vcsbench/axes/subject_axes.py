"""Define the axes of a command's input and output: repository, format, packing, storage, file system."""

import os
from functools import cache

from vcsbench import words
from vcsbench.axes.axis import Axis, Environment
from vcsbench.config.models import unknown_name
from vcsbench.errors import UserError, printable
from vcsbench.formats import (
    AS_IS,
    NOT_PACKED,
    PACKABLE,
    PACKED,
    PACKINGS,
    PARTLY_PACKED,
    RELEASES,
    FormatValue,
    format_number,
    parse_format,
    written_settings,
)
from vcsbench.records import Recipe, RecipeFilesystem, RecipeRepository
from vcsbench.storages import guest
from vcsbench.storages.cell_filesystem import MAKEABLE, REFLINK_KINDS, why_cannot_make
from vcsbench.storages.file_trees import why_not_on_disk
from vcsbench.storages.filesystems import lacks_journal, mounted_at, why_unmounted
from vcsbench.storages.workdir import resolve

CURRENT, UPGRADED, IF_PACKABLE = "current", "upgraded", "if_packable"
OFFERED_FORMATS = ("f6", "f7", "f8", "f6-today")
UPGRADE = """Formats: a repository of f7, for example, is loaded in that format. f6-to-f8 was loaded in
f6, upgraded in place, and then packed, if at all: `svnadmin upgrade` rewrites no revision, so old revisions
keep the layout of f6. Only `svnadmin dump` and `svnadmin load` give them the layout of f8."""
SETTINGS = """Settings: db/fsfs.conf of a loaded repository has the defaults of the release that introduced
its format. f6-today has those that today's svnadmin uses for f6. Today's svnadmin loads all of them:
improvements that are no settings are in each."""

SHARD = 1000

MAKE, GUEST = "make", "guest"
# INSTEAD replaces an ext4 without a journal (storages.spread).
STORAGE, INSTEAD = "storage", "ext4"
KINDS = {**{kind: (kind,) for kind in MAKEABLE}, "nfs": ("nfs", "nfs4")}
LOOP = """A file system that vcsbench makes lies in an image on the storage, behind a loop device with direct
I/O. Its journal, allocation and metadata are its own; its writes reach the storage's disk."""


def _repository_keys(value: str, env: Environment) -> Recipe:
    if not value:
        return {}
    if unknown := unknown_name([value], env.sources):
        raise UserError(f"{env.config.where(['repositories'])}: `repositories` has no {unknown}")
    source = env.sources[value]
    repository: RecipeRepository = {
        "name": value,
        "identity": source.identity(),
        "source": source.kind,
        "scale": source.scale(),
        "description": source.describe(),
        "head": env.head(value),
    }
    return {"repository": repository}


def _why_not_repository(value: str, draft: Recipe, env: Environment) -> str:
    if not value:
        return ""
    behind = draft.get("revisions_behind") or 0
    counts = {number: lambda n=number: env.odd_paths(value, n) for number in (0, behind)}
    reasons = (why_not_on_disk(draft, count, number) for number, count in counts.items())
    return next(filter(None, reasons), "")


def current_format(env: Environment) -> str:
    """Return the format of the baseline: as-is for a local FSFS repository, or svnadmin's own format."""
    return env.machine.newest_format if isinstance(env.stored, str) else AS_IS


def _upgraded_formats(env: Environment) -> list[str]:
    stored, newest = env.stored, env.machine.newest_format
    if isinstance(stored, str) or stored.number >= format_number(newest):
        return []
    return [f"{AS_IS}-to-{newest}"]


def _format_values(env: Environment) -> dict[str, list[str]]:
    newest = format_number(env.machine.newest_format)
    offered = [f for f in OFFERED_FORMATS if format_number(parse_format(f).format) <= newest]
    return {
        "formats": list(dict.fromkeys([current_format(env), *_upgraded_formats(env), *offered]))
    }


def _select_formats(named: list[str], values: list[str], env: Environment) -> list[str]:
    meanings = {CURRENT: [current_format(env)], UPGRADED: _upgraded_formats(env)}
    return list(dict.fromkeys(value for name in named for value in meanings.get(name, [name])))


def _why_no_format(value: str) -> str:
    try:
        parse_format(value)
    except ValueError:
        return (
            f"is no format. Use one of {', '.join(RELEASES)}, an upgrade in place such as f6-to-f8, one with "
            f"the settings of today such as f6-today, or {AS_IS}"
        )
    return ""


def _format_keys(value: str, env: Environment) -> Recipe:
    if not value:
        return {}
    made, stored = parse_format(value), env.stored if value.startswith(AS_IS) else ""
    settings = {} if made.is_as_is else written_settings(made)
    if not isinstance(stored, str):
        settings = dict(stored.settings)
    return {"repository": {"format": value, "fsfs_settings": settings}}


def _why_not_format(value: str, draft: Recipe, env: Environment) -> str:
    if not value:
        return ""
    made, newest, own = parse_format(value), env.machine.newest_format, ""
    if made.is_as_is:
        stored, name = env.stored, draft.get("repository", {}).get("name", env.only_repository)
        if name != env.only_repository:
            return f"{name} is no repository of yours to copy as it is"
        if isinstance(stored, str):
            return f"an exact copy needs a local Subversion repository: {stored}"
        own = stored.format
        if stored.number > format_number(newest):
            return f"the svnadmin here reads formats up to {newest}, and {env.only_repository} is of {own}"
    elif format_number(made.format) > format_number(newest):
        return f"the svnadmin here makes formats up to {newest}"
    if made.is_upgraded and made.format != newest:
        return f"`svnadmin upgrade` goes to {newest} here, not to {made.format}"
    return f"{env.only_repository} is of {newest} already" * (made.is_upgraded and own == newest)


def _format_findings(env: Environment) -> list[str]:
    stored, value = env.stored, current_format(env)
    if isinstance(stored, str):
        return [f"The baseline is {value}, the format of `svnadmin create` here: {stored}."]
    text = f"{env.only_repository} is of format {stored.number}"
    if stored.number >= 7 and not stored.is_logical:
        text += ", with the layout of an older one that it was upgraded from in place"
    exports = "the root, with all branches and tags. TREE=project/trunk names a folder instead."
    if tree := env.sources[env.only_repository].tree(env.root):
        exports = f"the folder {printable(tree)}."
    return [
        f"{text}: a copy of it by `svnadmin hotcopy` ({value}) is the baseline.",
        *(
            f"{form} is that, upgraded in place: its revisions keep the layout that they have."
            for form in _upgraded_formats(env)
        ),
        f"Exports read {exports}",
    ]


def current_packing(env: Environment) -> str:
    return NOT_PACKED if isinstance(env.stored, str) else env.stored.packing


def _select_packings(named: list[str], values: list[str], env: Environment) -> list[str]:
    current = current_packing(env)
    is_small = env.only_repository and env.revisions(env.only_repository) < SHARD
    meanings = {CURRENT: current, IF_PACKABLE: current if is_small else PACKED}
    return list(dict.fromkeys(meanings.get(name, name) for name in named))


def _why_not_packing(value: str, draft: Recipe, env: Environment) -> str:
    repository = draft.get("repository", {})
    form = parse_format(repository["format"]) if repository.get("format") else None
    if form and form.is_as_is:
        # A study without the axis has a default; "" without one.
        return _why_not_packing_of_stored(value or repository.get("packing", ""), form, env)
    if value == PARTLY_PACKED:
        return "only a repository of your own as it is can be partly packed"
    name = repository.get("name")
    if value != PACKED or not name:
        return ""
    number = format_number(form.format) if form else PACKABLE
    is_sharded = form.is_sharded if form else True
    if form and not is_sharded:
        return (
            f"a repository that was made in {form.created} has no shards: there is nothing to pack"
        )
    if number < PACKABLE:
        return f"Subversion packs no repository of f{number}"
    revisions = env.revisions(name)
    if revisions < SHARD:
        number_of = words.count_of(revisions, "revision")
        return f"{name} has {number_of}, fewer than a shard of {SHARD}: there is nothing to pack"
    return ""


def _why_not_packing_of_stored(value: str, form: FormatValue, env: Environment) -> str:
    """Return why a copy of the user's repository cannot have a packing. `form` is as-is, perhaps upgraded."""
    stored = env.stored
    if isinstance(stored, str) or value in ("", current_packing(env)):
        return ""
    name = env.only_repository
    if value != PACKED:
        cause = "" if stored.packing == NOT_PACKED else ": svnadmin cannot unpack"
        return f"{name} is {stored.packing}, and a copy keeps that{cause}"
    number = format_number(form.format) if form.is_upgraded else stored.number
    if not stored.shard:
        return f"{name} has no shards: there is nothing to pack"
    if number < PACKABLE:
        return f"Subversion packs no repository of f{number}"
    if not stored.full:
        return f"{name} has no full shard of {stored.shard}: there is nothing to pack"
    return ""


def _packing_findings(env: Environment) -> list[str]:
    if isinstance(env.stored, str):
        return []
    full, packed = words.count_of(env.stored.full, "full shard"), env.stored.packed
    return [f"It has {full}, {packed} packed: {current_packing(env)} is the baseline."]


def _storage_keys(value: str, env: Environment) -> Recipe:
    settings = env.config.settings
    name, folders = value or settings.storage, settings.storages
    if name not in folders:
        raise UserError(
            f"{env.config.where(['storages'])}: `storages.{name}` is missing, on which the grid measures. "
            f"Add a folder, or use in the grid only {', '.join(folders)}."
        )
    paths = {storage: resolve(folder, env.root) for storage, folder in folders.items()}
    shelf = next(storage for storage in paths if paths[storage] == paths[name])
    return {"storage": {"name": name, "path": folders[name], "shelf": shelf}}


def _filesystem_keys(value: str, env: Environment) -> Recipe:
    if not value:
        return {}
    settings = env.config.settings
    storage = str(resolve(settings.storages[settings.storage], env.root))
    configured = env.config.where(["filesystems"])
    where = f"{configured}: `filesystems.{value}`"
    make, root = "", storage
    if value == STORAGE:
        # Recently removed files would disturb an ext4 without a journal.
        if lacks_journal(storage) and not why_cannot_make(INSTEAD):
            make = INSTEAD
    elif unknown := unknown_name([value], [STORAGE, *settings.filesystems]):
        raise UserError(f"{configured}: `filesystems` has no {unknown}")
    elif (folder := settings.filesystems[value]) == GUEST:
        if value not in guest.FOLDERS:
            raise UserError(
                f"{where}: a guest has {' and '.join(guest.FOLDERS)}, and no {value}. Use one of these."
            )
        made: RecipeFilesystem = {"make": "", "root": guest.FOLDERS[value], "guest": guest.KIND}
        made["scratch"] = str(resolve(settings.scratch, env.root))
        return {"filesystem": made}
    elif folder == MAKE:
        make = value
    else:
        root = str(resolve(folder, env.root))
        kind, _ = _mounted(root)
        is_usable = os.path.isdir(root) and not why_unmounted(root)
        if is_usable and kind not in KINDS.get(value, (kind,)):
            raise UserError(
                f"{where}: {root} is {kind}, not {value}. Call it {kind}, or use a folder on {value}."
            )
    return {"filesystem": {"make": make, "root": root, "mounted": [] if make else _mounted(root)}}


def _why_not_filesystem(value: str, draft: Recipe, env: Environment) -> str:
    filesystem = draft.get("filesystem")
    if not filesystem:
        return ""
    if "guest" in filesystem:
        return guest.why_unavailable(env.root) or (
            "ext4 has no reflinks" * bool(draft.get("clones"))
        )
    kind = filesystem["make"] or filesystem["mounted"][0]
    if draft.get("clones") and kind not in REFLINK_KINDS:
        return f"{kind} has no reflinks"
    if filesystem["make"]:
        return why_cannot_make(kind)
    root = filesystem["root"]
    return why_unmounted(root) or ("" if os.path.isdir(root) else f"{root} is no folder")


_mounted = cache(mounted_at)


AXES = (
    Axis(
        "repo",
        values_by_word=lambda env: {"repositories": env.named_repositories},
        source="`repositories`",
        changes_work=True,
        select=lambda named, values, env: (
            named if env.config.settings.repository is None else values
        ),
        recipe_keys=_repository_keys,
        why_not=_why_not_repository,
    ),
    Axis(
        "format",
        values_by_word=_format_values,
        needs_server=True,
        why_invalid=_why_no_format,
        select=_select_formats,
        recipe_keys=_format_keys,
        why_not=_why_not_format,
        findings=_format_findings,
        limits=lambda values, guests: (
            [UPGRADE, SETTINGS] if any("-to-" in value for value in values) else [SETTINGS]
        ),
    ),
    Axis(
        "packing",
        values_by_word=lambda env: {
            "packings": [*dict.fromkeys([current_packing(env), NOT_PACKED, PACKED])]
        },
        needs_server=True,
        why_invalid=lambda value: (
            "" if value in PACKINGS else f"is no packing. Use one of {', '.join(PACKINGS)}"
        ),
        select=_select_packings,
        recipe_keys=lambda value, env: (
            {"repository": {"packing": value, "packed": value != NOT_PACKED}} if value else {}
        ),
        why_not=_why_not_packing,
        findings=_packing_findings,
    ),
    Axis(
        "storage",
        values_by_word=lambda env: {"storages": list(env.config.settings.storages)},
        source="`storages`",
        recipe_keys=_storage_keys,
    ),
    Axis(
        "filesystem",
        values_by_word=lambda env: {
            "filesystems": list(env.config.settings.filesystems),
            "storage and filesystems": [STORAGE, *env.config.settings.filesystems],
        },
        source="`filesystems`",
        recipe_keys=_filesystem_keys,
        why_not=_why_not_filesystem,
        limits=lambda values, guests: [LOOP] if {*values} - {STORAGE, *guest.FOLDERS} else [],
    ),
)
