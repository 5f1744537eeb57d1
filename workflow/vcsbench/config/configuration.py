"""The configuration: read, checked, and joined with the studies that it names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vcsbench.config.mix import check_mix
from vcsbench.config.models import Settings, StudySets
from vcsbench.config.renamed import RENAMED
from vcsbench.config.study import Study, load_study
from vcsbench.config.thresholds import THRESHOLDS
from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError

# The repository on which fixed cost is measured. A configuration cannot use its name.
EMPTY = "empty"
# Of `studies`: the published ones that have a grid.
ALL = "all"
# Of `minutes`: each study that is not named.
DEFAULT = "default"


@dataclass(frozen=True)
class Config:
    """The checked configuration.

    `root` is the folder of the Snakefile; `settings` are the keys, with defaults.
    """

    root: Path
    files: tuple[Path, ...]
    settings: Settings
    studies: dict[str, Study]

    @property
    def minutes(self) -> float | None:
        """How long a run may take; None where its rounds are fixed."""
        each = [self.minutes_of(study) for study in self.studies]
        return None if self.settings.rounds else sum(minutes or 0.0 for minutes in each)

    @property
    def limits(self) -> dict[str, Any]:
        """From where on something is concluded (compare.decisions.Limits), as plain data."""
        return {
            "min_effect_pct": self.settings.min_effect_pct,
            "min_effect_pct_if_noisy": self.settings.min_effect_pct_if_noisy,
            "min_rounds": self.least_rounds,
        }

    @property
    def thresholds(self) -> dict[str, float]:
        """Return the thresholds of flags and calls, by name."""
        return {name: getattr(self.settings.thresholds, name) for name in THRESHOLDS}

    @property
    def repositories(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of the repositories, with the keys that are set."""
        return {
            name: one.model_dump(exclude_unset=True)
            for name, one in self.settings.repositories.items()
        }

    @property
    def builds(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of the builds, with the keys that are set."""
        return {
            name: one.model_dump(exclude_unset=True) if one else {}
            for name, one in self.settings.builds.items()
        }

    def minutes_of(self, study: str) -> float | None:
        """What a study has of that: its own minutes, or an even share of the run's."""
        minutes = self.settings.minutes
        if self.settings.rounds or minutes is None:
            return None
        if isinstance(minutes, Mapping):
            return float(minutes[study] if study in minutes else minutes[DEFAULT])
        return float(minutes) / len(self.studies)

    @property
    def least_rounds(self) -> int:
        """The rounds that each cell gets of a run that has minutes: with fewer nothing is concluded."""
        return int(self.thresholds["min_rounds"])

    def where(self, keys: Sequence[Any]) -> str:
        """The file that a path of keys comes from, for messages."""
        return where(self.files, keys)


def load_config(
    raw: Mapping[str, Any], root: Path, files: Sequence[Path], elsewhere: bool = False
) -> Config:
    """Check the merged configuration `raw`, which was read from `files` in this order. Where jobs run
    `elsewhere`, on a cluster, its minutes are the fewest rounds that there can be.

    Raises a UserError that names the file and the key.
    """
    settings = validate(dict(raw), Settings, lambda keys: where(files, keys))
    studies = _studies(settings, root / "config" / "studies")
    config = Config(root, tuple(files), settings, studies)
    _check_storage(config)
    _check_paths(config)
    _check_length(config)
    if elsewhere and settings.rounds is None:
        config = replace(config, settings=settings.with_rounds(config.least_rounds))
    _check_studies(config)
    check_mix(
        config.settings.workload,
        root,
        config.where(["workload"]) if config.settings.workload else "",
    )
    return config


def _studies(settings: Settings, folder: Path) -> dict[str, Study]:
    """Return the studies to run, by name."""
    named = settings.studies
    if isinstance(named, StudySets):
        named = named.default if settings.repository is None else named.repository
    every = named == [ALL]
    found = {n: load_study(folder / f"{n}.yaml") for n in (settings.grid if every else named)}
    return {name: study for name, study in found.items() if study.published or not every}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two configurations as Snakemake merges them: mappings key by key, all else replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


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
    if config.settings.storage not in config.settings.storages:
        known = ", ".join(config.settings.storages)
        raise UserError(
            f"{config.where(['storage'])}: `storage`: {config.settings.storage!r} is not defined; "
            f"`storages` has {known}"
        )


def _check_paths(config: Config) -> None:
    """Raise UserError if a folder that is written has a name that a URL or a server cannot have."""
    folders: dict[tuple[str, ...], str] = {("scratch",): config.settings.scratch}
    folders |= {("storages", name): folder for name, folder in config.settings.storages.items()}
    for keys, folder in folders.items():
        path = os.path.realpath(config.root / folder)
        if why := _why_no_path(path):
            raise UserError(
                f"{config.where(keys)}: `{'.'.join(keys)}`: {path!a} {why}. Use another folder."
            )
    if why := _why_no_path(tempfile.gettempdir()):
        raise UserError(f"TMPDIR: {tempfile.gettempdir()!a} {why}. Use another folder.")


def _why_no_path(path: str) -> str:
    if any(ord(character) < ord(" ") or ord(character) == 0x7F for character in path):
        return "has a control character"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    return ""


def _check_length(config: Config) -> None:
    if config.settings.minutes is None and config.settings.rounds is None:
        raise UserError(
            f"{config.where([])}: neither `minutes` nor `rounds` is there; say how long to measure "
            f"(`minutes: 15`), or how often (`rounds: 5`)"
        )
    minutes = config.settings.minutes
    for name in minutes if isinstance(minutes, Mapping) else ():
        if new := RENAMED["StudySets"].get(name):
            raise UserError(
                f"{config.where(['minutes'])}: `minutes.{name}` is not a key here. "
                f"It is now `{new}`: rename it."
            )
    if config.settings.rounds is not None or not isinstance(minutes, Mapping) or DEFAULT in minutes:
        return
    for name in config.studies:
        if name not in minutes:
            raise UserError(
                f"{config.where(['minutes'])}: `minutes.{name}` is missing; say how long to measure that "
                f"study, or `minutes.{DEFAULT}` for all that are not named"
            )


def _check_studies(config: Config) -> None:
    for name, study in config.studies.items():
        if not study.commands:
            raise UserError(
                f"{config.where(['studies'])}: `studies`: {name} has published numbers only "
                f"and no `commands` to measure; `snakemake published` computes its tables"
            )
        if name not in config.settings.grid:
            raise UserError(
                f"{config.where(['grid'])}: `grid.{name}` is missing; say which cells to measure"
            )
    for name in config.settings.grid:
        if not (config.root / "config" / "studies" / f"{name}.yaml").exists():
            raise UserError(
                f"{config.where(['grid', name])}: `grid.{name}`: there is no config/studies/{name}.yaml"
            )
