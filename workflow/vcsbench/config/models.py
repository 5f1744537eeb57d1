"""Define the keys of the configuration, with their types, bounds, defaults and documentation.

config/README.md, docs/study-keys.md, docs/study-report-keys.md and docs/expectations.md list the keys.
"""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
    with_config,
)

from vcsbench.metrics import COUNTS, METRICS
from vcsbench.programs import WORD

Item = TypeVar("Item", bound=Hashable)
MOST_MINUTES = 365 * 24 * 60
LARGEST_NUMBER = 1e9


# Of a mapping in a configuration file: unknown keys, other types and infinite numbers are errors. The text
# below a key is its documentation.
STRICT = ConfigDict(
    extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
)
# For mappings that Snakemake stores as params of rules: they stay dictionaries.
definition = with_config(STRICT)


class Model(BaseModel):
    """A mapping of a configuration file with defaults."""

    model_config = STRICT


def key(default: object = ..., was: str = "", **rules: Any) -> Any:
    """Return the field of a key, with pydantic's `rules`, such as ge=1. A key without a default is needed.

    `was` is the former name of the key, for the error about this name (validation._similar).
    """
    return Field(default, json_schema_extra={"was": was} if was else None, **rules)


def former(name: str) -> Any:
    """Return the field of a key of a TypedDict that had another name before."""
    return Field(json_schema_extra={"was": name})


def unique(values: list[Item]) -> list[Item]:
    """Return the values. Raise ValueError if one of them is there twice."""
    if len(set(values)) < len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise ValueError(f"has {twice!r} twice")
    return values


def known_metric(name: str) -> str:
    """Return the name. Raise ValueError if no run has a value of the metric."""
    # COUNTS stands for the metrics that a table puts side by side.
    metrics = [metric for metric in METRICS if metric != COUNTS]
    unknown = unknown_name([name], metrics)
    if unknown:
        raise ValueError(f"no metric {unknown} workflow/vcsbench/metrics.py defines them.")
    return name


def known_metric_of_table(name: str) -> str:
    return name if name == COUNTS else known_metric(name)


def without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("has a NUL character")
    return text


def fits_pattern(pattern: str, meaning: str) -> AfterValidator:
    """Return a validator of a whole text. `meaning` has the pattern in words, for the error."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"should {meaning}")
        return text

    return AfterValidator(check)


def check_words(text: str, known: Collection[str]) -> str:
    """Return the text, such as "{svn} log {url}". Raise ValueError if a word in braces is not `known`."""
    for word in WORD.findall(text):
        if word not in known:
            names = ", ".join(f"{{{name}}}" for name in known)
            raise ValueError(f"{{{word}}} stands for nothing. Use one of {names}.")
    return text


# Axes and their values that have another name now.
RENAMED_VALUES = {"ra": "access", "hot-svn": "hot-server"}


def unknown_name(names: Iterable[object], known: Collection[object]) -> str:
    """Return the first name that is not known, and a remedy, as the end of an error; "" if all are known.

    Examples: "'tepid'. Use one of cold, hot." and, for a former name, "'ra'. It is now access: rename it."
    """
    for name in names:
        if name not in known:
            new = RENAMED_VALUES.get(str(name))
            if new in known:
                return f"{name!r}. It is now {new}: rename it."
            return f"{name!r}. Use one of {', '.join(str(each) for each in known)}."
    return ""


def defined_in(key: str, what_is_wrong: str) -> AfterValidator:
    """Return a validator of a name that has to be a key of a mapping in the same content, such as `builds`.

    `what_is_wrong` begins the error, such as "there is no build".
    """

    def check(name: str, info: ValidationInfo) -> str:
        # The context is the whole content, such as the configuration (validation.validate).
        mapping = info.context.get(key) if info.context else None
        # If the value of the key is no mapping, pydantic reports that.
        if isinstance(mapping, dict):
            unknown = unknown_name([name], mapping)
            if unknown:
                raise ValueError(f"{what_is_wrong} {unknown}")
        return name

    return AfterValidator(check)


def exactly_one(*names: str) -> AfterValidator:
    """Return a validator of a definition that needs exactly one of these keys."""

    def check(content: dict[str, object]) -> dict[str, object]:
        if sum(name in content for name in names) != 1:
            raise ValueError(f"needs either `{'` or `'.join(names)}`. Use exactly one of them.")
        return content

    return AfterValidator(check)


NAME_RULE = "have letters (a to z), digits, `.`, `_` and `-` only"
Name = Annotated[
    str,
    StringConstraints(max_length=200),
    fits_pattern("[A-Za-z0-9][A-Za-z0-9._-]*", f"{NAME_RULE}, and begin with a letter or digit"),
]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=20_000), AfterValidator(without_nul)
]
MetricName = Annotated[Text, AfterValidator(known_metric)]
Names = Annotated[list[Text], Field(min_length=1), AfterValidator(unique)]
Minutes = Annotated[float, Field(gt=0, le=MOST_MINUTES)]
Weight = Annotated[float, Field(gt=0, le=LARGEST_NUMBER)]
Percentage = Annotated[float, Field(gt=0, le=1000)]
# An axis that does not apply has "".
Value = Annotated[str, StringConstraints(max_length=200)]
Values = Annotated[list[Value], Field(min_length=1), AfterValidator(unique)]
GridPart = dict[str, Value | Values]
Circumstances = Annotated[dict[str, Value], Field(min_length=1)]


class StudySets(Model):
    repository: Names
    """The studies of a session on a repository of your own."""
    git_repository: Names | None = None
    """The studies of a session on a git repository of your own (default: those of `repository`)."""
    default: Names = key(was="otherwise")
    """The studies of any other session."""


def refuse_archive(source: object) -> object:
    if source == "archive":
        raise ValueError(
            "an archive is no source. Unpack it first, and name the folder with `source: directory`."
        )
    return source


def refuse_whole_history(history: object) -> object:
    if history == "whole":
        raise ValueError(
            "branches and tags of git are not converted any more. Use first-parent, or as-is for a study of "
            "git."
        )
    return history


class RepositorySettings(Model):
    source: Annotated[
        Literal["generated", "git", "svn", "dump", "directory"], BeforeValidator(refuse_archive)
    ]
    """Where the revisions come from."""
    profile: Text | None = None
    """`generated`: the kind of history (docs/sources.md)."""
    scale: float | None = key(None, gt=0, le=1)
    """`generated`: the share of the published revisions to make; 1 is all."""
    seed: int | None = key(None, ge=0, lt=1 << 63)
    """`generated`: another seed gives other bytes of the same kind."""
    path: Text | None = None
    """All other sources: the repository, file or folder. vcsbench only reads it."""
    url: Text | None = None
    """`svn`: a URL instead of `path`. svnrdump copies the repository."""
    branch: Text | None = None
    """`git`: the branch whose history becomes trunk (default: HEAD)."""
    history: Annotated[
        Literal["first-parent", "as-is"] | None, BeforeValidator(refuse_whole_history)
    ] = None
    """`git`: the first parents of the branch, or the repository as it is for a study of git."""
    tree: str | None = None
    """The folder that is exported (default: `trunk` if there is one, otherwise all)."""
    studies: list[Text] | None = key(None, min_length=1)
    """The studies that measure this repository (default: all)."""
    packing: Literal["nopack", "pack"] | None = None
    """Pack its copies, or not, in studies without an axis `packing`."""


class Side(Model):
    prefix: Text | None = None
    """The folder that it was installed in, absolute or relative to the checkout. Programs are in bin or sbin,
    libraries in lib, mod_dav_svn.so in libexec, modules, lib/apache2/modules or similar
    (docs/build-sources.md). Without an httpd of its own, this machine's httpd loads the module."""
    conda: Text | None = None
    """A conda environment file, instead of a prefix. vcsbench makes the environment below results/builds with
    micromamba, mamba, conda or pixi. conda has no mod_dav_svn."""
    library_path: str | None = None
    """LD_LIBRARY_PATH for its programs, folders separated by colons. If a build loads Subversion's libraries
    from other folders than these and its prefix, its runs are invalid."""

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if self.prefix is not None and self.conda is not None:
            raise ValueError("has both `prefix` and `conda`. Remove one of them.")
        if self.library_path and self.prefix is None:
            raise ValueError(
                "has `library_path` without `prefix`. Add the prefix (/usr for the system's programs)."
            )
        return self


NameOfBuild = Annotated[Text, defined_in("builds", "there is no build")]


class BuildPlace(Side):
    """One value of the axis `build`: a place of both sides, or one of each."""

    client: NameOfBuild | Side | None = None
    """The client's place, or the name of the build that has the client. A side that is left out has the
    programs on the PATH."""
    server: NameOfBuild | Side | None = None
    """The same for the server."""

    @property
    def has_sides(self) -> bool:
        return self.client is not None or self.server is not None

    @model_validator(mode="after")
    def _is_for_both_sides_or_each(self) -> Self:
        if self.has_sides and (self.prefix or self.conda or self.library_path):
            raise ValueError("has a place next to `client` or `server`. Move it below these.")
        return self


class RemoteServer(Model):
    """A server on another machine. Fixed cost is not measured there: it has no empty repository."""

    host: Text
    """The name of the machine in reports."""
    url: Annotated[
        Text,
        fits_pattern("(svn|http)://.+", "begin with svn:// or http://"),
        AfterValidator(lambda url: check_words(url, ["repo"])),
    ]
    """The URL of the repository there; `{repo}` stands for the repository's name here."""


NodeName = Annotated[str, fits_pattern("[A-Za-z0-9._-]+", NAME_RULE)]


class ClusterSettings(Model):
    nodes: (
        Annotated[int, Field(ge=1, le=1000)]
        | Annotated[list[NodeName], Field(min_length=1), AfterValidator(unique)]
    ) = 1
    """How many nodes measure, or their names. One node measures all rounds of a block."""
    node_class: Text | None = key(None, alias="class")
    """Use only nodes of this class (Slurm: a feature, or features)."""
    cores: int | None = key(None, ge=1, le=100_000)
    """The processors of a node of the class; each job takes all of them."""


class WorkloadPart(Model):
    weight: Weight
    """Its share, in per cent."""
    where: Circumstances
    """Its cells: axes, each with a value."""


class StudyGrid(Model):
    include: list[GridPart] = key(min_length=1)
    """Parts of the grid; a cell in any of them is measured, once."""
    exclude: list[GridPart] = key([])
    """Parts of the grid that are left out again."""


class Thresholds(Model):
    """How many rounds a conclusion needs."""

    min_rounds: int = key(5, was="enough_rounds", ge=2, le=10_000)
    """Comparisons with fewer rounds get `low-n`. With `minutes`, each cell gets at least these."""


class FolderSettings(Model):
    """The keys of config.yaml that `clean` needs."""

    model_config = ConfigDict(extra="ignore")

    storages: dict[Name, Text]
    scratch: Text
    filesystems: dict[Name, Text] = key({})


class Settings(Model):
    """The keys of config.yaml."""

    studies: Names | StudySets
    """The studies to measure, by their file in config/studies: `[fsfs-san-2014, builds]`, or `[all]` for the
    published ones with a grid. The other form has lists for a repository of your own, and for another
    session: `{repository: [own-repository], git_repository: [git-server], default: [fsfs-san-2014]}`. `make
    report STUDY=name` sets it."""
    repository: str | None = None
    """A repository of your own (Subversion, git or a dump file); the studies run on it alone. `make report
    REPO=path` sets it."""
    tree: str | None = None
    """The folder of `repository` to export (default: `trunk` if there is one, otherwise all). `make report
    TREE=folder` sets it."""
    repositories: dict[Name, RepositorySettings] = key(min_length=1)
    """The values of the axis `repo`, each with its source."""
    builds: dict[Name, BuildPlace | None] = key({})
    """The values of the axis `build`: names, each with the place of its programs. In the study `builds`,
    the first entry of the first file with this key is the baseline of the others. A build without a place
    (`system: {}`) has the programs on the PATH."""
    storages: dict[Name, Text] = key(min_length=1)
    """Folders on the storages under test, by name. vcsbench makes one folder in each and touches nothing else
    there. The servers' user (nobody, if you are root) must be able to enter it. If `/etc/fstab` lists a
    mount for it, it is used only while that is mounted. The end of another mount is noticed during a session,
    and between sessions after its first copies."""
    storage: Annotated[Text, defined_in("storages", "there is no storage")]
    """The one of `storages` that studies without an axis `storage` use for repositories."""
    filesystems: dict[Name, Text] = key({})
    """The values of the axis `filesystem`, by name: a folder on a mounted file system; or `make` (names
    btrfs, ext4, xfs, tmpfs; needs root): each cell-round gets a new file system, in an image on `storage`, or
    in memory for tmpfs (docs/working-copies.md). `nfs: guest` is NFS in a User Mode Linux guest,
    `guest-local: guest` the file system below that server."""
    server: RemoteServer | None = None
    """A server that you run on another machine, for working-copy-2012 (docs/working-copies.md has an
    example). Load the same histories there. Cells that name a format, packing, cache state, build or
    configuration of the server are skipped."""
    scratch: Text
    """A folder in RAM. Repositories are loaded there, then moved to a storage, where they are packed and
    copied."""
    copies: int = key(ge=1, le=100)
    """How many interleaved copies of each repository there are; round n uses copy ((n - 1) mod copies) +
    1."""
    fragmentation_kib: float = key(0, was="spacer_kib", ge=0, le=1 << 20)
    """Mean size in KiB of the spacer files between the interleaved revisions (published: 128; 0: none)."""
    minutes: Minutes | dict[str, Minutes] | None = None
    """The time limit of all sessions on these results together, from set-up to the report. All studies share
    it evenly; or give it by study, with `default` for the others. `make report MINUTES=30` sets it. Each cell
    gets `thresholds.min_rounds` rounds, even if this takes longer. Further rounds go to the comparisons that
    are nearest to a decision (docs/running.md). On a cluster, `minutes` has no effect: set `rounds`."""
    rounds: int | None = key(None, ge=1, le=10_000)
    """How often the whole grid is measured, however long it takes. `minutes` has no effect then. A larger
    value measures the new rounds only."""
    runs: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"]
    """Timed runs per cell and round. `auto`: one where each run needs its own preparation (cold) or a slow
    line (`network`), several where one preparation serves all (warm)."""
    seed: int = key(ge=0, lt=1 << 63)
    """Seed of the random order of the cells."""
    measure: Literal["all", "nothing"] = "all"
    """Which cells are measured: `all`, or `nothing`, for a report of the existing results. Results of other
    settings, programs or another version of vcsbench are outdated: it leaves them out. `vcsbench run` sets
    it after a failure."""
    cluster: ClusterSettings = key(ClusterSettings())
    """The nodes that `snakemake --profile profiles/slurm` measures on (docs/cluster.md)."""
    blocks: list[Text] | None = None
    """The blocks that a node of a cluster measures. Its job sets it."""
    duplicates: int = key(1, was="twins", ge=0, le=100)
    """How many cells of each class (`variance_group` of the study) are measured twice, the second with `~2`
    at the end of its name. Their difference is a part of every comparison's error. With 0, every comparison
    is undecided. A build listed twice is no duplicate: it is the noise check of the page and the terminal."""
    min_effect_pct: Percentage = key(10, was="notable_pct")
    """The margin: the smallest effect worth noting, in per cent, on every machine. A comparison is equal if a
    test shows that its difference is below it, or if a certain difference was measured below it.
    Counts are equal up to 1 % (docs/statistics.md)."""
    workload: (
        Annotated[dict[str, Weight], Field(min_length=1)]
        | Annotated[list[WorkloadPart], Field(min_length=1)]
        | None
    ) = key(None, was="mix")
    """What you run, in per cent: `{update-1000: 90, log: 10}`, or a list of parts with a `weight` and their
    cells, `{weight: 90, where: {command: log, cache: cold}}`. The advice weighs the commands by it
    (docs/report.md). After a change, nothing is measured again."""
    server_log: Annotated[str, AfterValidator(without_nul)] | None = None
    """A log of your server instead of `workload`: httpd's with mod_dav_svn's SVN-ACTION, or svnserve's
    `--log-file`. Its commands become the weights (docs/server-log.md); users, paths and revisions are not
    read. `make report LOG=path` sets it."""
    clear_caches: Literal["auto", "drop-caches", "evict"] = "auto"
    """How caches become cold. `drop-caches` empties the kernel's (root). `evict` drops the repository's files
    one by one (inodes stay cached). `auto` uses the first that is possible."""
    shared_servers: bool = False
    """true: also serve a repository that not all users of this machine may read if its server cannot be
    hidden from them (without root and without user namespaces). false: skip such cells."""
    output_location: Literal["auto", "storage", "scratch"] = key("auto", was="targets")
    """The place that commands such as export write to. `auto` is the storage under test, as published. On
    ext4 without a journal, `auto` is `scratch`, because creating files there is slow after deletions."""
    time_limit_s: float = key(600, gt=0, le=31_536_000)
    """A timed run that takes longer, in seconds, fails its cell."""
    thresholds: Thresholds = key(Thresholds())
    """How many rounds a conclusion needs. After a change, no existing result is measured again."""
    grid: dict[str, StudyGrid]
    """The cells of each study to measure: `include` lists parts of the grid, each an axis with a value or a
    list of values (an axis that is not named takes all values of the study); `exclude` takes parts out
    again."""
    expectations: Annotated[list[Text], AfterValidator(unique)] = key([])
    """Files with expectations of your own, relative to the checkout; `check` fails if one does not hold."""
    baselines: Annotated[list[Name], AfterValidator(unique)] = key([])
    """Saved baselines (`make baseline NAME=...`) to compare with: a table each. Only results of the same host
    are compared."""
