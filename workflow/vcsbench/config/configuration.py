"""Check the configuration, and load the studies that it names."""

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from vcsbench.config.models import Settings, StudySets, WorkloadPart, unknown_name
from vcsbench.config.study import Study
from vcsbench.config.study_reader import load_study
from vcsbench.config.validation import (
    Keys,
    dotted,
    read_mapping,
    read_yaml,
    validate,
    value_at,
)
from vcsbench.errors import OPTION_BY_KEY, UserError
from vcsbench.external import PATH_ERRORS, local_path

# The repository for fixed cost. A configuration cannot use its name.
EMPTY = "empty"
# In `studies`: the published ones that have a grid. In `minutes`: each study that is not named.
ALL, DEFAULT = "all", "default"
# The page of all studies.
INDEX_PAGE = "index"
STUDIES = Path("config", "studies")
# Characters of a path that other programs cannot take: control characters, and bytes that are not UTF-8.
UNUSABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
WHY_UNUSABLE = "has a control character, or is not UTF-8"
STUDY_NAME = re.compile("[a-z0-9][a-z0-9-]*")
# Keys whose mapping is one definition. It is replaced as a whole: a mixture of two servers or of two
# workloads would make no sense.
WHOLE_KEYS = ("server", "workload")

Workload = Mapping[str, float] | Sequence[WorkloadPart]


class WorkloadShare(TypedDict):
    """`weight` is in per cent."""

    name: str
    weight: float
    where: dict[str, str]


@dataclass(frozen=True)
class Config:
    """The checked configuration.

    `root` is the folder of the Snakefile. `files` were read, and have the merged `content`. `settings` are
    the content with defaults, `studies` those to measure by name.
    """

    root: Path
    files: tuple[Path, ...]
    content: Mapping[str, object]
    settings: Settings
    studies: dict[str, Study]

    @property
    def folders(self) -> dict[tuple[str, ...], str]:
        """Return the configured folders of `scratch` and the storages by their keys."""
        folders: dict[tuple[str, ...], str] = {("scratch",): self.settings.scratch}
        for name, folder in self.settings.storages.items():
            folders["storages", name] = folder
        return folders

    @property
    def repositories(self) -> dict[str, dict[str, object]]:
        return {
            name: repository.model_dump(exclude_unset=True, exclude_none=True)
            for name, repository in self.settings.repositories.items()
        }

    def minutes_of(self, study: str) -> float | None:
        """Return the minutes of a study: its own, or an even share of the run's; None if rounds are fixed."""
        minutes = self.settings.minutes
        if self.settings.rounds or minutes is None:
            return None
        if not isinstance(minutes, Mapping):
            return float(minutes) / len(self.studies)
        # By study, with DEFAULT for all others: {"builds": 60, "default": 15}.
        name = study if study in minutes else DEFAULT
        return float(minutes[name])

    @property
    def minutes_of_run(self) -> float | None:
        """Return the minutes of all studies together; None if rounds are fixed."""
        limits = [self.minutes_of(study) for study in self.studies]
        if None in limits:
            return None
        return sum(limit for limit in limits if limit is not None)

    @property
    def least_rounds(self) -> int:
        """Return the rounds of each cell in a run with a time limit. Fewer allow no conclusion."""
        return self.settings.thresholds.min_rounds

    @cached_property
    def _file_contents(self) -> list[tuple[Path, object]]:
        """Return each file with its content. Errors of many values name their files."""
        return [(file, read_yaml(file)) for file in self.files]

    def source_of(self, keys: Keys) -> str:
        return _find_source(self._file_contents, keys, self.content)

    def error(self, keys: Keys, text: str) -> UserError:
        return UserError(f"{self.source_of(keys)}: `{dotted(keys)}`: {text}")


def read_configuration(files: Sequence[Path], options: Mapping[str, object]) -> dict[str, object]:
    """Return the merged configuration: a later file overrides an earlier one, and `options` override files.

    Raise UserError for a file that cannot be read.
    """
    return merge_configurations([*map(read_mapping, files), options])


def merge_configurations(configurations: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the merged keys of several configurations, in which a later value replaces an earlier one.

    If both values are mappings, their entries are merged by name: {"repositories": {"a": 1}} and
    {"repositories": {"b": 2}} give {"repositories": {"a": 1, "b": 2}}. An entry is replaced as a whole.
    So are the mappings of WHOLE_KEYS.
    """
    merged: dict[str, object] = {}
    for configuration in configurations:
        for key, value in configuration.items():
            earlier = merged.get(key)
            if key in WHOLE_KEYS or not isinstance(value, Mapping):
                merged[key] = value
            elif isinstance(earlier, Mapping):
                merged[key] = {**earlier, **value}
            else:
                merged[key] = dict(value)
    return merged


def load_config(
    raw: Mapping[str, object], root: Path, files: Sequence[Path], is_cluster: bool = False
) -> Config:
    """Return the checked configuration, with its studies. Raise UserError for the first fault.

    `raw` is the merged content of `files` and of options. A time limit has no meaning on a cluster: without
    the setting `rounds`, cells then have the smallest number of rounds that allows a conclusion.
    """
    settings = validate(dict(raw), Settings, lambda keys: source_of_value(files, keys, raw))
    config = Config(root, tuple(files), raw, settings, _load_studies(settings, root))
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        raise UserError(
            "TMPDIR: no temporary file can be made there, in /tmp or in /var/tmp. Set it to a folder that "
            "you can write."
        ) from None
    if UNUSABLE.search(temporary):
        raise UserError(f"TMPDIR: {temporary!a} {WHY_UNUSABLE}. Use another folder.")
    # These words have a meaning in the configuration, or are the name of a page. So they name no study.
    for word in (ALL, DEFAULT, INDEX_PAGE):
        path = root / STUDIES / f"{word}.yaml"
        if os.path.exists(path):
            raise UserError(f"{path}: `{word}` is a keyword, not a study. Rename the file.")
    _check_configuration(config)
    if is_cluster and settings.rounds is None:
        rounds = {"rounds": config.least_rounds}
        config = replace(config, settings=settings.model_copy(update=rounds))
    return config


def _load_studies(settings: Settings, root: Path) -> dict[str, Study]:
    """Return the studies to measure, by name.

    The setting `studies` has their names, or ["all"] for those of `grid` that have published numbers, or one
    of these lists for each kind of session (StudySets).
    """
    names = settings.studies
    if isinstance(names, StudySets):
        names = _choose_studies(names, settings.repository)
    is_all = names == [ALL]
    if is_all:
        names = list(settings.grid)
    studies: dict[str, Study] = {}
    for name in names:
        study = load_study(root / STUDIES / f"{name}.yaml")
        # A study without published numbers is measured only if the setting names it.
        if study.published is not None or not is_all:
            studies[name] = study
    return studies


def _choose_studies(sets: StudySets, repository: str | None) -> list[str]:
    """Return the names of the studies for the user's own repository, or for a session without one."""
    if repository is None:
        return sets.default
    if sets.git_repository is not None and _is_git_repository(repository):
        return sets.git_repository
    return sets.repository


def _is_git_repository(text: str) -> bool:
    """Return True if a path, or a URL such as file:///srv/git/x, looks like a git repository."""
    try:
        folder = local_path(text)
    except PATH_ERRORS:
        return False
    if os.path.lexists(f"{folder}/.git"):
        return True
    # A bare repository has no .git.
    return all(os.path.exists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs"))


def source_of_value(
    files: Sequence[Path], keys: Keys, merged: Mapping[str, object] | None = None
) -> str:
    """Return the source of a value of the configuration, for an error (_find_source). Read all files."""
    contents = [(file, read_yaml(file)) for file in files]
    return _find_source(contents, keys, merged)


def _find_source(
    contents: Sequence[tuple[Path, object]], keys: Keys, merged: Mapping[str, object] | None
) -> str:
    """Return the file or the option that sets a value of the configuration, for an error about the value.

    That is the last file with a value at `keys`, such as ["minutes", "builds"]. But an option of the command
    line may have replaced the value. Then `merged`, the configuration of all files and options together, has
    another one. In this case, and if no file has a value, the source is the option: "--minutes (make:
    MINUTES=)". If `merged` is None, files alone count. If `keys` is empty, the source is the first file.
    """
    if not keys:
        return str(contents[0][0])
    # The option of vcsbench that sets the first key; "" for a key that only Snakemake's --config sets.
    option = OPTION_BY_KEY.get(str(keys[0]), "")
    for file, content in reversed(contents):
        try:
            value = _value_below(content, keys)
        except LookupError:
            continue
        # `repository: null` in a file sets nothing, but leaves the value to the option --repository.
        is_unset = value is None and option != ""
        if not is_unset and not _is_replaced(value, keys, merged):
            return str(file)
    return option or "--config"


def _value_below(content: object, keys: Keys) -> object:
    """Return the value at a path of keys. Raise LookupError if it is missing."""
    for key in keys:
        content = value_at(content, key)
    return content


def _is_replaced(file_value: object, keys: Keys, merged: Mapping[str, object] | None) -> bool:
    """Return True if an option or a later file has replaced the value that a file has at a path of keys.

    `merged` is the configuration of all files and options together, and then has another value there. Without
    it, nothing counts as replaced.
    """
    if merged is None:
        return False
    try:
        merged_value = _value_below(merged, keys)
    except LookupError:
        return False
    # A mapping at the top level, such as `builds`, collects the entries of all files. If it has more entries
    # than the file, the file's entries still count. Only the mappings of WHOLE_KEYS are replaced as a whole.
    are_mappings = isinstance(file_value, Mapping) and isinstance(merged_value, Mapping)
    is_at_top_level = len(keys) == 1
    if are_mappings and is_at_top_level and keys[0] not in WHOLE_KEYS:
        return False
    # The user may write `.nan`. NaN is not equal to itself, so it would seem to be replaced.
    if isinstance(file_value, float) and math.isnan(file_value):
        return False
    return file_value != merged_value


def _check_configuration(config: Config) -> None:
    """Raise UserError for a fault that concerns several keys or files, such as a study without a grid.

    The models have checked the value of each key before.
    """
    for keys_of_folder, folder in config.folders.items():
        path = os.path.realpath(config.root / folder)
        if UNUSABLE.search(path):
            # With !a, the unusable characters are printed as escapes.
            raise config.error(keys_of_folder, f"{path!a} {WHY_UNUSABLE}. Use another folder.")
    _check_minutes(config)
    for name, study in config.studies.items():
        if not STUDY_NAME.fullmatch(name):
            text = f"{name!r} has other characters than a to z, 0 to 9 and `-`. Rename its file."
            raise config.error(["studies"], text)
        if not study.commands:
            raise config.error(
                ["studies"],
                f"{name} has published numbers only and no `commands` to measure. Remove it; `snakemake "
                f"published` computes its tables.",
            )
        if name not in config.settings.grid:
            raise config.error(["grid"], f"`grid.{name}` is missing. Add the cells to measure.")
    # Some keys, such as `grid`, also name studies that this run does not measure.
    for keys, name in _named_studies(config.settings):
        if not os.path.exists(config.root / STUDIES / f"{name}.yaml"):
            text = f"no such file {STUDIES}/{name}.yaml. Correct the name, or remove it."
            raise config.error(keys, text)
    if config.settings.workload:
        _check_workload(config, config.settings.workload)


def _check_minutes(config: Config) -> None:
    """Raise UserError for a fault of the time limit `minutes`, which is a number or a mapping by study.

    One of `minutes` and `rounds` has to be there. A mapping needs a value for each study, or one with the key
    DEFAULT for all others: {"builds": 60, "default": 15}. With `rounds`, the limit has no effect, so that
    studies may be missing.
    """
    minutes = config.settings.minutes
    rounds = config.settings.rounds
    if minutes is None and rounds is None:
        raise config.error(
            ["minutes"],
            "`minutes` and `rounds` are missing. Add a time limit (`minutes: 15`) or a number of rounds.",
        )
    # A plain number is for all studies together.
    if not isinstance(minutes, Mapping):
        return
    if rounds is not None or DEFAULT in minutes:
        return
    for name in config.studies:
        if name not in minutes:
            raise config.error(
                ["minutes"],
                f"`minutes.{name}` is missing. Add it, or `minutes.{DEFAULT}` for all others.",
            )


def _named_studies(settings: Settings) -> Iterator[tuple[Keys, str]]:
    """Yield the keys that name a study, with its name, also of studies that this run does not measure."""
    for name in settings.grid:
        yield ["grid", name], name
    if isinstance(settings.minutes, Mapping):
        for name in settings.minutes:
            if name != DEFAULT:
                yield ["minutes", name], name
    for repository, definition in settings.repositories.items():
        for name in definition.studies or ():
            yield ["repositories", repository, "studies"], name


def workload_of(workload: Workload | None, study: Study) -> list[WorkloadShare]:
    """Return the parts of a workload (what the user runs, in per cent); [] if it does not fit the study.

    Example: `[{"name": "log", "weight": 60.0, "where": {"command": "log"}}]`. A workload does not fit if the
    study lacks one of its axes.
    """
    if not workload:
        return []
    parts = _workload_parts(workload, study.command_axis)
    # A mapping of commands, such as {"log": 60}, fits each study, by its own axis of commands.
    if isinstance(workload, Mapping):
        return parts
    axes = set(study.axes)
    return parts if all(axes.issuperset(part["where"]) for part in parts) else []


def _workload_parts(workload: Workload, command_axis: str) -> list[WorkloadShare]:
    """Return a workload in the form of a list: `{log: 10}` is the command `log` with 10 per cent."""
    parts: list[WorkloadShare] = []
    if isinstance(workload, Mapping):
        for name, weight in workload.items():
            parts.append({"name": name, "weight": float(weight), "where": {command_axis: name}})
        return parts
    for part in workload:
        name = " ".join(part.where.values())
        parts.append({"name": name, "weight": part.weight, "where": dict(part.where)})
    return parts


def _check_workload(config: Config, workload: Workload) -> None:
    """Raise UserError for a fault of the workload: the weights of the commands that the user runs.

    The weights of its parts have to be 100 per cent together. All parts have to name the same axes, and no
    two parts the same cells. Their axes and commands have to exist in some study. A server's log must not
    give weights, too.
    """
    keys = ["workload"]
    parts = _workload_parts(workload, "command")
    total = math.fsum(part["weight"] for part in parts)
    if not math.isclose(total, 100.0, abs_tol=0.01):
        text = f"the sum of the weights is {total:g}. Make it 100 (per cent)."
        raise config.error(keys, text)
    sets_of_axes = {frozenset(part["where"]) for part in parts}
    if len(sets_of_axes) > 1:
        text = "the parts differ in the axes of `where`. Use the same in each."
        raise config.error(keys, text)
    named_cells = {frozenset(part["where"].items()) for part in parts}
    if len(named_cells) < len(parts):
        raise config.error(keys, "two parts have the same cells. Merge them.")
    # A configuration has one workload for all studies. So a name is correct if any study has it.
    studies = [load_study(path) for path in sorted((config.root / STUDIES).glob("*.yaml"))]
    axes = sorted({axis for study in studies for axis in study.axes})
    commands = sorted({name for study in studies for name in study.commands})
    for part in parts:
        unknown_axis = unknown_name(part["where"], axes)
        if unknown_axis:
            raise config.error(keys, f"no study has an axis {unknown_axis}")
        if "command" not in part["where"]:
            continue
        unknown_command = unknown_name([part["where"]["command"]], commands)
        if unknown_command:
            raise config.error(keys, f"no study measures the command {unknown_command}")
    if config.settings.server_log is not None:
        raise config.error(keys, "`server_log` gives the weights, too. Remove one of both.")
