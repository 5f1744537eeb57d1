"""Define the axes of repositories: their history, format and packing."""

from functools import partial

from vcsbench import words
from vcsbench.axes.axis import Axis, Environment
from vcsbench.axes.build_axis import needed_format
from vcsbench.axis_names import FORMAT_AXIS, PACKING_AXIS, REPOSITORY_AXIS
from vcsbench.config.models import unknown_name
from vcsbench.errors import UserError, printable
from vcsbench.formats import (
    AS_IS,
    LOGICAL,
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
from vcsbench.records import Recipe, RecipeRepository
from vcsbench.storages.file_trees import why_not_on_disk
from vcsbench.systems.subversion import SHARD_REVISIONS

# Words of the grid for values of the user's own repository (docs/axis-values.md).
CURRENT, UPGRADED, IF_PACKABLE = "current", "upgraded", "if_packable"
# The formats that are compared with the format of the user's own repository.
OFFERED_FORMATS = ("f6", "f7", "f8", "f6-today")
UPGRADE_NOTE = """Formats: a repository of f7, for example, is loaded in that format. f6-to-f8 was loaded in
f6, upgraded in place, and then packed, if at all: `svnadmin upgrade` rewrites no revision, so old revisions
keep the layout of f6. Only `svnadmin dump` and `svnadmin load` give them the layout of f8."""
CONF_NOTE = """Settings: db/fsfs.conf of a loaded repository has the defaults of the release that introduced
its format. f6-today has those that today's svnadmin uses for f6. Today's svnadmin loads all of them:
improvements that are no settings are in each."""


def _repository_keys(repo: str, env: Environment) -> Recipe:
    """Return the key `repository` of a cell's recipe, with the facts of its source; {} without a repository.

    Other axes, such as `format` and `packing`, add further keys to this mapping. Raise UserError for a name
    that the configuration lacks.

    - `identity`: a digest that changes with the content of the source.
    - `scale`: the share of the published size that a generated history has, such as 0.1.
    - `head`: the place of the youngest tree, such as a path with a commit, or a URL with a revision.
    """
    if not repo:
        return {}
    unknown = unknown_name([repo], env.sources)
    if unknown:
        raise UserError(
            f"{env.config.source_of(['repositories'])}: `repositories` has no {unknown}"
        )
    source = env.sources[repo]
    repository: RecipeRepository = {
        "name": repo,
        "identity": source.identity(),
        "source": source.kind,
        "scale": source.scale(),
        "description": source.describe(),
        "head": env.head(repo),
    }
    return {"repository": repository}


def _why_not_repository(repo: str, recipe: Recipe, env: Environment) -> str:
    """Return in a clause why a command cannot write the tree of a repository; "" if it can, or writes none.

    A disk or a working copy cannot hold some paths: `ruby has 2 paths named .svn, which a working copy cannot
    hold, so its tree cannot be checked out`. An update needs an older tree: `mine has no trunk in revision 2
    (it was added, moved or replaced since)`.
    """
    if not repo:
        return ""
    # An update begins with an output that is this number of revisions older than the repository. A push has
    # such a number, too.
    revisions_behind = recipe.get("revisions_behind", 0)
    if revisions_behind and recipe["output"] == "working_copy":
        reason = env.why_no_update(repo, revisions_behind)
        if reason:
            return reason
    # The older tree can have other paths than the youngest one (0 revisions behind).
    for behind in sorted({0, revisions_behind}):
        # To count the paths takes minutes, so why_not_on_disk() does that only for a command that writes a
        # tree.
        count_paths = partial(env.odd_paths, repo, behind)
        reason = why_not_on_disk(recipe, count_paths, behind)
        if reason:
            return reason
    return ""


def current_format(env: Environment) -> str:
    """Return the format of the baseline: `as-is` or the newest one of this machine's svnadmin, such as `f8`.

    It is `as-is` if the only repository is a local Subversion repository (FSFS), which can be copied.
    """
    return AS_IS if env.own_shape else env.machine.newest_format


def _upgraded_formats(env: Environment) -> list[str]:
    """Return ["as-is-to-f8"] if the user's repository can be upgraded in place, otherwise []."""
    newest = env.machine.newest_format
    if env.own_shape is None or env.own_shape.number >= format_number(newest):
        return []
    return [f"{AS_IS}-to-{newest}"]


def _offered_formats(env: Environment) -> list[str]:
    """Return the formats to compare for the user's own repository, the baseline first.

    The formats are its own, an upgrade in place, and some to load the repository into, of which
    _why_not_format() skips those that are too new for this machine's svnadmin. Example for a local repository
    of f6: `["as-is", "as-is-to-f8", "f6", "f7", "f8", "f6-today"]`.
    """
    formats = [current_format(env), *_upgraded_formats(env), *OFFERED_FORMATS]
    return list(dict.fromkeys(formats))


def _select_formats(named: list[str], values: list[str], env: Environment) -> list[str]:
    """Return the formats that the names in the configured grid (`named`) stand for, each once.

    For a local repository of f6, ["current", "upgraded", "f8"] becomes ["as-is", "as-is-to-f8", "f8"].
    `upgraded` stands for nothing if the repository has the newest format already.
    """
    formats = []
    for name in named:
        if name == CURRENT:
            formats.append(current_format(env))
        elif name == UPGRADED:
            formats += _upgraded_formats(env)
        else:
            formats.append(name)
    return list(dict.fromkeys(formats))


def _why_no_format(fmt: str) -> str:
    try:
        parse_format(fmt)
    except ValueError:
        return (
            f"is no format. Use one of {', '.join(RELEASES)}, an upgrade in place such as f6-to-f8, one with "
            f"the settings of today such as f6-today, or {AS_IS}"
        )
    return ""


def _format_keys(fmt: str, env: Environment) -> Recipe:
    """Return the format and its settings as keys of a recipe; {} without a format.

    Example: `{"repository": {"format": "f8", "fsfs_settings": {"compression": "lz4", ...}}}`. An exact copy
    (`as-is`) has the settings of the user's repository, {} if its files cannot be read.
    """
    if not fmt:
        return {}
    parsed = parse_format(fmt)
    if not parsed.is_as_is:
        settings = written_settings(parsed)
    elif env.own_shape:
        settings = dict(env.own_shape.settings)
    else:
        settings = {}
    return {"repository": {"format": fmt, "fsfs_settings": settings}}


def _why_not_format(fmt: str, recipe: Recipe, env: Environment) -> str:
    """Return why this machine's svnadmin cannot make a repository of a format, in a clause; "" if it can.

    - `f7` or `f6-today`: svnadmin must be new enough to make the format.
    - `as-is`: the repository must be the user's own, local, and of a format that svnadmin can read.
    - `f6-to-f8` or `as-is-to-f8`: svnadmin upgrades to its newest format only, and only an older repository.

    `fmt` is the cell's own value on the axis, "" for a cell that has its format from a default.
    """
    # needed_format() returns the default, or "" for a cell that opens no repository, and so does not use it.
    value = fmt or needed_format(recipe)
    if not value:
        return ""
    # For `f6-to-f8`, `created` is f6 and `format` is f8, the format after the upgrade in place.
    parsed = parse_format(value)
    newest = env.machine.newest_format
    if parsed.is_as_is:
        reason = _why_no_exact_copy(recipe, env)
        if reason:
            return reason
    elif format_number(parsed.format) > format_number(newest):
        return f"the svnadmin here makes formats up to {newest}"
    return _why_not_upgraded(parsed, env) if parsed.is_upgraded else ""


def _why_no_exact_copy(recipe: Recipe, env: Environment) -> str:
    """Return why a cell's repository cannot be copied as it is, in a clause; "" if it can."""
    # Without a value of the axis `repo`, the recipe names no repository. Then it is the only one.
    name = recipe.get("repository", {}).get("name", env.only_repository)
    if name != env.only_repository:
        return f"{name} is no repository of yours to copy as it is"
    shape = env.own_shape
    if shape is None:
        return f"an exact copy needs a local Subversion repository: {env.shape_or_reason}"
    newest = env.machine.newest_format
    if shape.number > format_number(newest):
        return f"the svnadmin here reads formats up to {newest}, and {name} is of {shape.format}"
    return ""


def _why_not_upgraded(value: FormatValue, env: Environment) -> str:
    """Return why `svnadmin upgrade` cannot make a format such as `f6-to-f8`, in a clause; "" if it can."""
    newest = env.machine.newest_format
    # The command has no option for a format. It always makes the newest one.
    if value.format != newest:
        return f"`svnadmin upgrade` goes to {newest} here, not to {value.format}"
    # parse_format() refuses `f8-to-f8`. But `as-is-to-f8` does not show the format of the user's repository.
    own_format = env.own_shape.format if env.own_shape else ""
    if value.is_as_is and own_format == newest:
        return f"{env.only_repository} is of {newest} already"
    return ""


def _format_findings(env: Environment) -> list[str]:
    """Return sentences on the format of the user's repository, and the folder that exports read.

    Example: `project is of format 6: a copy of it ... (as-is) is the baseline.`, and `Exports read ...`. If
    the repository's files cannot be read, there is only `The baseline is f8, ...`, with the reason.
    """
    baseline = current_format(env)
    shape = env.own_shape
    if shape is None:
        meaning = "the format of `svnadmin create` here"
        return [f"The baseline is {baseline}, {meaning}: {env.shape_or_reason}."]
    format_text = f"{env.only_repository} is of format {shape.number}"
    # A repository that was made in f7 or later has the logical layout. An upgrade in place changes the
    # number, and not the layout.
    if shape.number >= LOGICAL and not shape.is_logical:
        format_text += ", with the layout of an older one that it was upgraded from in place"
    findings = [f"{format_text}: a copy of it by `svnadmin hotcopy` ({baseline}) is the baseline."]
    for upgraded in _upgraded_formats(env):
        findings.append(
            f"{upgraded} is that, upgraded in place: its revisions keep the layout that they have."
        )
    # The folder that exports read, such as `project/trunk`; "" for the root. tree() finds it in the user's
    # repository itself. Its argument, a loaded repository, is only for other kinds of sources.
    folder = env.sources[env.only_repository].tree(env.root)
    if folder:
        findings.append(f"Exports read the folder {printable(folder)}.")
    else:
        findings.append(
            "Exports read the root, with all branches and tags. TREE=project/trunk names a folder instead."
        )
    return findings


def current_packing(env: Environment) -> str:
    """Return the packing of the baseline: that of a single local FSFS repository, otherwise `nopack`."""
    return env.own_shape.packing if env.own_shape else NOT_PACKED


def _select_packings(named: list[str], values: list[str], env: Environment) -> list[str]:
    """Return the packings that the names in a part of the grid (`named`) stand for, each once.

    `current` stands for the packing of the user's repository: `nopack`, `partly` or `pack`. `if_packable`
    stands for `pack`, or for the same as `current` if the repository is smaller than a shard.
    """
    current = current_packing(env)
    # Only full shards (1,000 revisions each) can be packed.
    is_small = env.only_repository and not _has_full_shard(env.only_repository, env)
    meanings = {CURRENT: current, IF_PACKABLE: current if is_small else PACKED}
    return list(dict.fromkeys(meanings.get(name, name) for name in named))


def _why_not_packing(packing: str, recipe: Recipe, env: Environment) -> str:
    """Return why the repository of a cell cannot have a packing, in a clause; "" if it can.

    `packing` is the cell's own value: `nopack`, `partly` or `pack`; "" if it has its packing from a default.
    `svnadmin pack` joins the revisions of each full shard (1,000 revisions by default) into one file.
    """
    repository = recipe.get("repository", {})
    name = repository.get("name")
    fmt = repository.get("format")
    parsed = parse_format(fmt) if fmt else None
    if parsed and parsed.is_as_is:
        # svnadmin cannot unpack, so a copy of the user's repository may be unable to have the study's default
        # packing. So the default in the recipe is checked, too. Of other formats, only `packing` is checked.
        packing_of_cell = packing or repository.get("packing", "")
        return _why_not_packing_of_copy(packing_of_cell, parsed, env)
    if packing == PARTLY_PACKED:
        return "only a repository of your own as it is can be partly packed"
    # Any repository can stay unpacked, and a cell without a repository packs nothing.
    if packing != PACKED or not name:
        return ""
    # `f2-to-f8` is made (`created`) in f2, and then upgraded to f8 (`format`). An upgrade adds no shards, and
    # old formats have none.
    if parsed and not parsed.is_sharded:
        return f"a repository that was made in {parsed.created} has no shards: there is nothing to pack"
    # But an upgrade makes existing shards packable.
    if parsed and format_number(parsed.format) < PACKABLE:
        return f"Subversion packs no repository of {parsed.format}"
    if not _has_full_shard(name, env):
        number = words.count_of(env.revisions(name), "revision")
        return f"{name} has {number}, fewer than a shard of {SHARD_REVISIONS}: there is nothing to pack"
    return ""


def _has_full_shard(name: str, env: Environment) -> bool:
    # The revisions are numbered from 0, and revision 0 belongs to the first shard.
    return env.revisions(name) + 1 >= SHARD_REVISIONS


def _why_not_packing_of_copy(packing: str, copy_format: FormatValue, env: Environment) -> str:
    """Return why a copy of the user's repository cannot have a packing, in a clause; "" if it can.

    The format of the copy is `as-is`, or upgraded in place, such as `as-is-to-f8`. The copy can keep its
    packing, or be packed further, which svnadmin does shard by shard.
    """
    # If the layout is unknown, _why_not_format() has the reason.
    shape = env.own_shape
    if shape is None:
        return ""
    # A cell without the axis and without a default ("") has the packing of the user's repository.
    if packing in ("", shape.packing):
        return ""
    name = env.only_repository
    if packing != PACKED:
        if shape.packing == NOT_PACKED:
            return f"{name} is {shape.packing}, and a copy keeps that"
        return f"{name} is {shape.packing}, and a copy keeps that: svnadmin cannot unpack"
    # `shard` is the number of revisions per shard, 0 without shards. `full` is the number of full shards.
    if not shape.shard:
        return f"{name} has no shards: there is nothing to pack"
    # An upgrade in place makes an old repository packable, if it has shards.
    number = format_number(copy_format.format) if copy_format.is_upgraded else shape.number
    if number < PACKABLE:
        return f"Subversion packs no repository of f{number}"
    if not shape.full:
        return f"{name} has no full shard of {shape.shard}: there is nothing to pack"
    return ""


def _packing_findings(env: Environment) -> list[str]:
    """Return a sentence on the shards of the user's repository: `It has 3 full shards, 0 packed: ...`."""
    if env.own_shape is None:
        return []
    full = words.count_of(env.own_shape.full, "full shard")
    return [
        f"It has {full}, {env.own_shape.packed} packed: {current_packing(env)} is the baseline."
    ]


AXES = (
    Axis(
        REPOSITORY_AXIS,
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
        FORMAT_AXIS,
        values_by_word=lambda env: {"formats": _offered_formats(env)},
        needs_server=True,
        why_invalid=_why_no_format,
        select=_select_formats,
        recipe_keys=_format_keys,
        why_not=_why_not_format,
        findings=_format_findings,
        limits=lambda values, guests, measured: (
            [UPGRADE_NOTE, CONF_NOTE] if any("-to-" in value for value in values) else [CONF_NOTE]
        ),
    ),
    Axis(
        PACKING_AXIS,
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
)
