"""The configuration: read, checked, and joined with the studies that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vcsbench import sources
from vcsbench.axes.build import ON_PATH, Build, read_builds
from vcsbench.config.study import Study, load_study
from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError
from vcsbench.evidence import judgement

# From the slowest to the fastest, as the studies list them.
PUBLISHED_SERVERS = {"slow": 0, "medium": 1, "fast": 2}

DEFAULTS: dict[str, Any] = {
    "repository": None,
    "expectations": [],
    "builds": {},
    "baselines": [],
    "spacer_kib": 0,
    "cold_client": False,
    "clear_caches": "auto",
    "targets": "auto",
    "time_limit_s": 600,
    "twins": 1,
    "notable_pct": 10,
    "thresholds": judgement.THRESHOLDS,
}


@dataclass(frozen=True)
class Config:
    """The checked configuration.

    `root` is the folder of the Snakefile; `repositories` maps a name to its source's definition;
    `values` holds the other keys, defaults filled in.
    """

    root: Path
    files: tuple[Path, ...]
    values: dict[str, Any]
    repositories: dict[str, dict[str, Any]]
    studies: dict[str, Study]
    servers: list[str]
    builds: dict[str, Build] = field(default_factory=dict)

    def build_of(self, axes: Mapping[str, str]) -> Build:
        """The build that a cell is measured with: the PATH's where the axis does not apply."""
        return self.builds[axes["build"]] if axes.get("build") else ON_PATH

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def where(self, keys: Sequence[Any]) -> str:
        """The file that a path of keys comes from, for messages."""
        return where(self.files, keys)


def load_config(raw: Mapping[str, Any], root: Path, files: Sequence[Path]) -> Config:
    """Check the merged configuration `raw`, which was read from `files` in this order.

    Raises a UserError that names the file and the key.
    """
    validate(dict(raw), "config", lambda keys: where(files, keys))
    values = {**DEFAULTS, **raw}
    values["thresholds"] = {**judgement.THRESHOLDS, **values["thresholds"]}
    repositories = dict(values.pop("repositories"))
    if values["repository"] is not None:
        repositories = own_repository(values["repository"], repositories)
    studies = {
        name: load_study(root / "config" / "studies" / f"{name}.yaml") for name in raw["studies"]
    }
    servers = server_names(root / "config" / "servers")
    builds = read_builds(values["builds"], root, lambda keys: where(files, keys))
    studies = {name: study.resolved(list(builds)) for name, study in studies.items()}
    config = Config(root, tuple(files), values, repositories, studies, servers, builds)
    _check_storage(config)
    _check_studies(config)
    for study in config.studies.values():
        _check_builds(config, study)
    return config


def server_names(folder: Path) -> list[str]:
    """The server configurations: the published ones in their order, then all others by name."""
    found = [path.name for path in folder.iterdir() if path.is_dir()]
    return sorted(found, key=lambda name: (PUBLISHED_SERVERS.get(name, len(found)), name))


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations as Snakemake merges them: mappings key by key, all else replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def own_repository(path: str, configured: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The user's repository as the only value of the axis `repo`, named after its folder."""
    definition = sources.detect(path)
    stem = Path(definition["path"]).name.removesuffix(".git") or Path(path).resolve().parent.name
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in stem)
    name = name.lstrip("._-") or "repository"
    if name in configured:  # never mistaken for a published repository
        name += "-own"
    return {name: definition}


def where(files: Sequence[Path], keys: Sequence[Any]) -> str:
    """The last of the files in which the path of keys stands; `--config` where it is in none."""
    if not keys:
        return str(files[0])
    return next((str(file) for file in reversed(files) if _has(read_yaml(file), keys)), "--config")


def _has(content: Any, keys: Sequence[Any]) -> bool:
    try:
        for key in keys:
            content = content[key]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _check_storage(config: Config) -> None:
    if config["storage"] not in config["storages"]:
        known = ", ".join(config["storages"])
        raise UserError(
            f"{config.where(['storage'])}: `storage`: {config['storage']!r} is not defined; "
            f"`storages` has {known}"
        )


def _check_studies(config: Config) -> None:
    for name, study in config.studies.items():
        if not study.commands:
            raise UserError(
                f"{config.where(['studies'])}: `studies`: {name} has published numbers only "
                f"and no `commands` to measure; `snakemake published` computes its tables"
            )
        if name not in config["grid"]:
            raise UserError(
                f"{config.where(['grid'])}: `grid.{name}` is missing; say which cells to measure"
            )
    for name in config["grid"]:
        if not (config.root / "config" / "studies" / f"{name}.yaml").exists():
            raise UserError(
                f"{config.where(['grid', name])}: `grid.{name}`: there is no config/studies/{name}.yaml"
            )


def _check_builds(config: Config, study: Study) -> None:
    names = study.axes.get("build", [])
    place = config.where(["builds"])
    if "build" in study.axes and not config.builds:
        raise UserError(
            f"{place}: `builds` is missing, of which the study {study.name} has an axis; name at least "
            f"one build, such as `system: {{}}`"
        )
    for name in names:
        if name not in config.builds:
            raise UserError(
                f"{place}: `builds.{name}` is missing; the study {study.name} is about a build of this name"
            )
    for table, definition in study.tables.items():
        if definition.get("compare", {}).get("candidates") == []:
            raise UserError(
                f"{place}: `builds` has {names[0]} only, and {study.name}'s table {table} compares the first "
                f"with the others; name another one (the same binaries under another name show the noise)"
            )
