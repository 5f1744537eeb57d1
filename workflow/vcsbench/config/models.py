"""Define the keys of the configuration, with their types, bounds, defaults and documentation.

config/README.md is generated from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, create_model

from vcsbench.config.thresholds import BOUNDS, LARGEST, THRESHOLDS

Item = TypeVar("Item")
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MOST_MINUTES = 365 * 24 * 60


class Model(BaseModel):
    """A mapping of a configuration file: unknown keys, other types and infinite numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def unique(values: list[Item]) -> list[Item]:
    """Return the values. Raise ValueError if one is there twice."""
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"has {value!r} twice")
    return values


def without_nul(text: str) -> str:
    """Return the text. Raise ValueError for a NUL character, which no path or argument can have."""
    if "\0" in text:
        raise ValueError("has a NUL character")
    return text


Name = Annotated[str, StringConstraints(pattern=NAME, max_length=200)]
Text = Annotated[
    str, StringConstraints(min_length=1, max_length=20_000), AfterValidator(without_nul)
]
Names = Annotated[list[Text], Field(min_length=1), AfterValidator(unique)]
Minutes = Annotated[float, Field(gt=0, le=MOST_MINUTES)]
Weight = Annotated[float, Field(gt=0, le=LARGEST)]
Percentage = Annotated[float, Field(gt=0, le=1000)]
# Parts of a grid: an axis with a value, or with a list of values. An axis that does not apply has "".
Value = Annotated[str, StringConstraints(max_length=200)]
Part = dict[str, Value | Annotated[list[Value], Field(min_length=1)]]
# The values of axes that a thing is about.
Where = Annotated[dict[str, Value], Field(min_length=1)]
MISSING = ...


def key(default: object, meaning: str, **rules: Any) -> Any:
    """Return a documented field. `default` is MISSING for a key that is needed."""
    return Field(default, description=meaning, **rules)


class StudySets(Model):
    """Two lists of studies."""

    repository: Names = key(MISSING, "The studies of a run on a repository of your own.")
    default: Names = key(MISSING, "The studies of any other run.")


class RepositorySettings(Model):
    """One value of the axis `repo`."""

    source: Literal["generated", "git", "svn", "dump", "directory", "archive"] = key(
        MISSING, "Where the revisions come from."
    )
    profile: Text | None = key(None, "`generated`: the kind of history (docs/sources.md).")
    scale: float | None = key(
        None, "`generated`: the share of the published revisions to make; 1 is all.", gt=0, le=1
    )
    seed: int | None = key(
        None, "`generated`: another seed gives other bytes of the same kind.", ge=0, lt=1 << 63
    )
    path: Text | None = key(
        None,
        "`git`, `svn`, `dump`, `directory`, `archive`: the repository, file or folder. vcsbench only "
        "reads it.",
    )
    url: Text | None = key(
        None, "`svn`: the URL of a repository, instead of `path`. svnrdump copies it."
    )
    branch: Text | None = key(
        None, "`git`: the branch whose history becomes trunk (default: HEAD)."
    )
    history: Literal["first-parent", "whole"] | None = key(
        None, "`git`: one line of history, or branches and tags as well."
    )
    tree: str | None = key(
        None, "The folder that is exported (default: `trunk` if there is one, otherwise all)."
    )
    studies: list[Text] | None = key(
        None, "The studies that measure this repository (default: all).", min_length=1
    )
    packing: Literal["nopack", "pack"] | None = key(
        None, "Pack its copies, or not, in studies without an axis `packing`."
    )


class Side(Model):
    """The place of a client or of a server."""

    prefix: Text | None = key(None, "The folder that the side was installed in.")
    conda: Text | None = key(None, "A conda environment file.")
    library_path: str | None = key(None, "LD_LIBRARY_PATH for its programs.")


class BuildPlace(Model):
    """One value of the axis `build`."""

    prefix: Text | None = key(
        None,
        "The folder that the build was installed in, absolute or relative to the checkout. Programs are "
        "in bin or sbin, libraries in lib, mod_dav_svn.so in libexec, modules or lib/apache2/modules. "
        "Without an httpd of its own, this machine's httpd loads the module.",
    )
    conda: Text | None = key(
        None,
        "A conda environment file, instead of a prefix. vcsbench makes the environment below "
        "results/builds with micromamba, mamba, conda or pixi. conda has no mod_dav_svn.",
    )
    library_path: str | None = key(
        None,
        "LD_LIBRARY_PATH for the build's programs, folders separated by colons. A build that loads "
        "Subversion's libraries from other folders than these and its prefix is mislabelled: its runs "
        "leave the tables.",
    )
    client: Text | Side | None = key(
        None,
        "The client's place, or the name of the build that has the client. A side that is left out has "
        "the programs on the PATH.",
    )
    server: Text | Side | None = key(None, "The same for the server.")


class RemoteServer(Model):
    """A server on another machine."""

    host: Text = key(MISSING, "The name of the machine in reports.")
    url: Text = key(
        MISSING,
        "The URL of the repository there; `{repo}` stands for the repository's name here.",
        pattern="^(svn|http)://.",
    )


class ClusterSettings(Model):
    """The nodes of a cluster."""

    nodes: (
        Annotated[int, Field(ge=1, le=1000)]
        | Annotated[
            list[Annotated[str, StringConstraints(pattern="^[A-Za-z0-9._-]+$")]],
            Field(min_length=1),
            AfterValidator(unique),
        ]
    ) = key(
        1,
        "How many nodes measure, or the names of the nodes. Each block has all of its rounds on one node.",
    )
    node_class: Text | None = key(
        None,
        "Only nodes that the scheduler knows by this word are used (Slurm: a feature, or features).",
        alias="class",
    )
    cores: int | None = key(
        None, "The processors of a node of the class; each job takes all of them.", ge=1, le=100_000
    )


class WorkloadPart(Model):
    """One part of a workload."""

    weight: Weight = key(MISSING, "Its share, in per cent.")
    where: Where = key(MISSING, "Its cells: axes, each with a value.")


class StudyGrid(Model):
    """The cells of a study that are measured."""

    include: list[Part] = key(
        MISSING, "Parts of the grid; a cell in any of them is measured, once.", min_length=1
    )
    exclude: list[Part] = key([], "Parts of the grid that are left out again.")


_thresholds: dict[str, Any] = {
    name: (
        int if name == "min_rounds" else float,
        key(THRESHOLDS[name], meaning, ge=least, le=most),
    )
    for name, (meaning, least, most) in BOUNDS.items()
}
Thresholds = create_model("Thresholds", __base__=Model, **_thresholds)


class Settings(Model):
    """The keys of config.yaml."""

    studies: Names | StudySets = key(
        MISSING,
        "The studies to run, by the name of their file in config/studies, or `[all]` for the published "
        "ones with a grid here. Or two lists: `repository` for a repository of your own (key "
        "`repository`), and `default`. `make report STUDY=name` sets it.",
    )
    repository: str | None = key(
        None,
        "A repository of your own (Subversion, git or a dump file); the studies run on it alone. `make "
        "report REPO=path` sets it.",
    )
    repositories: dict[Name, RepositorySettings] = key(
        MISSING, "The values of the axis `repo`, each with its source.", min_length=1
    )
    builds: dict[Name, BuildPlace | None] = key(
        {},
        "The values of the axis `build`: names, each with the place of its programs. The others are "
        "compared with the first. A build without a place (`system: {}`) has the programs on the PATH.",
    )
    storages: dict[Name, Text] = key(
        MISSING,
        "Folders on the storages under test, by name. vcsbench makes one folder in each and touches "
        "nothing else there. The servers' user (nobody, if you are root) must be able to enter it. A "
        "link, or a path relative to the checkout, stands for the folder that it names.",
        min_length=1,
    )
    storage: Text = key(
        MISSING,
        "The one of `storages` that holds the repositories of studies without an axis `storage`.",
    )
    filesystems: dict[Name, Text] = key(
        {},
        "The values of the axis `filesystem`, by name: a folder on a mounted one, or `make` for btrfs, "
        "ext4, xfs and tmpfs: each cell-round then gets a new one, in an image on `storage` "
        "(docs/working-copies.md). This needs root. `nfs: guest` is NFS in a User Mode Linux guest that "
        "exports a file system to itself; `guest-local: guest` is the file system below that server.",
    )
    server: RemoteServer | None = key(
        None,
        "A server that you run on another machine, with a repository of the same trees as here, for the "
        "cells over its access. Its caches, CPU, memory and options are not measured; cells that compare "
        "them are skipped.",
    )
    scratch: Text = key(
        MISSING,
        "A folder in RAM. Repositories are loaded and packed there, then copied to the storage.",
    )
    copies: int = key(
        MISSING,
        "How many interleaved copies of each repository there are; round n uses copy ((n - 1) mod copies) "
        "+ 1.",
        ge=1,
        le=100,
    )
    fragmentation_kib: float = key(
        0,
        "Mean size in KiB of the spacer files between the interleaved revisions (published: 128; 0: none).",
        ge=0,
        le=1 << 20,
    )
    minutes: Minutes | dict[str, Minutes] | None = key(
        None,
        "The time limit of a run, from the preparation to the report. All studies share it evenly; or "
        "give it by study, with `default` for the others. `make report MINUTES=30` sets it. Each cell "
        "gets `thresholds.min_rounds` rounds, even if this takes longer. Further rounds go where they "
        "answer most, until all comparisons are answered or the time is up (docs/running.md). A larger "
        "value measures only what is new. On a cluster, each cell has `min_rounds` rounds, or as many "
        "as `rounds` says.",
    )
    rounds: int | None = key(
        None,
        "How often the whole grid is measured, however long it takes. `minutes` has no effect then. A "
        "larger value measures the new rounds only.",
        ge=1,
        le=10_000,
    )
    runs: Annotated[int, Field(ge=1, le=1000)] | Literal["auto"] = key(
        MISSING,
        "Timed runs per cell and round. `auto` depends on the cache state: one if a run costs more than "
        "its preparation (cold), several otherwise (hot). Before version 2, hyperfine reports CPU times "
        "of several runs as means.",
    )
    seed: int = key(MISSING, "Seed of the random order of the cells.", ge=0, lt=1 << 63)
    measure: Literal["all", "unfailed", "nothing"] = key(
        "all",
        "Which cells are measured: `all`; `unfailed`, without those that failed before and lack a round; or "
        "`nothing`, for a report of the existing results. `vcsbench run` sets it after a failure.",
    )
    cluster: ClusterSettings = key(
        ClusterSettings(),
        "The nodes that `snakemake --profile profiles/slurm` measures on (docs/cluster.md).",
    )
    duplicates: int = key(
        1,
        "How many cells of each class (command, cache, ra) are measured twice, under two names, the "
        "second with `~2` at its end. Their difference is a part of every comparison's error. With 0 this "
        "error is unknown, and no difference is called.",
        ge=0,
        le=100,
    )
    min_effect_pct: Percentage = key(
        10,
        "The smallest effect worth noting, in per cent. A comparison whose whole interval is below it "
        'reads "no difference shown", a wider one "too noisy to say".',
    )
    min_effect_pct_if_noisy: Percentage = key(
        15,
        "The same on a noisy machine, where single runs of a cell scatter by more than 6 % "
        "(docs/running.md), if it is larger. The report says so.",
    )
    workload: (
        Annotated[dict[str, Weight], Field(min_length=1)]
        | Annotated[list[WorkloadPart], Field(min_length=1)]
        | None
    ) = key(
        None,
        "What you run, in per cent: `{update-1000: 90, log: 10}`, or a list of parts with a `weight` and "
        "their cells, `{weight: 90, where: {command: log, cache: cold}}`. The advice weighs the commands "
        "by it (docs/report.md). A change measures nothing.",
    )
    skip_client_warmup: bool = key(
        False,
        "false: the client runs once on an empty repository after the caches were dropped, so that a cold "
        "run times the repository and not the client's own files. true: without this run, as published.",
    )
    clear_caches: Literal["auto", "drop-caches", "evict"] = key(
        "auto",
        "How caches become cold. `drop-caches` empties the kernel's (root). `evict` drops the "
        "repository's files one by one (vmtouch -e; inodes stay cached). `auto` uses the first that is "
        "possible.",
    )
    shared_servers: bool = key(
        False,
        "true: also serve a repository that not all users of this machine may read if its server cannot be "
        "hidden from them (without root and without user namespaces). false: skip such cells.",
    )
    output_location: Literal["auto", "storage", "scratch"] = key(
        "auto",
        "The place that commands such as export write to: the storage under test, as published, or the "
        "scratch folder. `auto` is the storage, unless it is ext4 without a journal, which avoids inodes "
        "for minutes after their deletion: an export would time this search.",
    )
    time_limit_s: float = key(
        600, "A run that takes longer, in seconds, fails its cell.", gt=0, le=31_536_000
    )
    thresholds: Thresholds = key(  # type: ignore[valid-type]
        Thresholds(),
        "When the evidence of a run sets a flag (docs/evidence.md), and when a comparison gets a "
        "call. Another threshold judges every run again and measures none.",
    )
    grid: dict[str, StudyGrid] = key(
        MISSING,
        "The cells of each study to measure: `include` lists parts of the grid, each an axis with a value "
        "or a list of values (an axis that is not named takes all values of the study); `exclude` takes "
        "parts out again.",
    )
    expectations: Annotated[list[Text], AfterValidator(unique)] = key(
        [],
        "Files with expectations of your own, relative to the Snakefile's folder; `check` fails if one "
        "does not hold.",
    )
    baselines: Annotated[list[Name], AfterValidator(unique)] = key(
        [],
        "Saved baselines (`make baseline NAME=...`) to compare with: a table each. Only results of the "
        "same host are compared.",
    )
