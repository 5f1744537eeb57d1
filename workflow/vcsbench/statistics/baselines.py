"""Describe measured studies, and the named baselines of them in baselines/<name>."""

import csv
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict, TypeVar, cast

from vcsbench import __version__
from vcsbench.config.study import TableDefinition
from vcsbench.errors import UserError
from vcsbench.evidence.run_columns import comparable_conditions
from vcsbench.external import open_regular
from vcsbench.files import read_json
from vcsbench.machine import host_label
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.result_state import check_version, read_context
from vcsbench.records import Context, Host
from vcsbench.result_paths import CellRound

Item = TypeVar("Item")
BASELINES_FOLDER = Path("baselines")
BASELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# The name of the current results, and of the axis in tables of baselines, which no axis of a study has.
NOW = "now"
SINCE = "(when)"
# The names of all other conditions are readable.
CONDITION_LABELS = {
    "cpus": "processors",
    "io_priority": "I/O priority",
    "quota_cores": "quota of processors",
    "io_limits": "limits of I/O",
    "memory_limit_bytes": "limit of memory",
    "preloaded": "preloaded libraries",
    "client": "timed process",
}
# Conditions with keys of their own in a Description. They are left out of its key `conditions`.
CONDITIONS_WITH_OWN_KEYS = ("kernel", "governor")


class CellSettings(TypedDict):
    """Settings of a cell that must be equal in a comparison with a baseline.

    `command` is its command line with {words}, `repository` identifies what it reads, and `method` is how
    it is measured. The paths and versions of programs are not here: baselines exist to compare versions.
    """

    command: str
    repository: dict[str, object]
    method: dict[str, object]


class Description(TypedDict):
    """When, where and how measurements were made: the JSON file next to a saved baseline.

    `first` and `last` are the times of runs, such as 2026-11-21T07:00:00Z, `hosts` has facts by host, `cells`
    the settings by cell. The other keys list the different values of all cells, `versions` by program,
    `server_files` digests by path (`fast/svnserve.args`), `conditions` texts by name (`nice`). Descriptions
    of earlier versions have no conditions. A list has one value unless a setting changed between the rounds.
    """

    study: str
    vcsbench: str
    first: str
    last: str
    rounds: int
    seeds: list[int]
    hosts: dict[str, Host]
    kernel: list[str]
    system: list[str]
    governor: list[str]
    storage: list[str]
    versions: dict[str, list[str]]
    server_files: dict[str, list[str]]
    conditions: NotRequired[dict[str, list[str]]]
    cells: dict[str, CellSettings]


def table_name(baseline: str) -> str:
    return f"{baseline}-vs-{NOW}"


def table_definition(definitions: Mapping[str, TableDefinition], baseline: str) -> TableDefinition:
    """Return the definition of the baseline table, which compares current times with a baseline's times.

    It has the `rows` and `columns` of the study's first table of elapsed times; [] without such a table.
    The compared "axis" is the time of measuring.
    """
    rows: list[str] = []
    columns: list[str] = []
    for table in definitions.values():
        # Only a table of times has `metric: elapsed_s`. A table of ratios has the key `compare` in its place.
        if table.get("metric") == DEFAULT_METRIC:
            rows, columns = table["rows"], table["columns"]
            break
    return {
        "compare": {"axis": SINCE, "baseline": baseline, "candidates": [NOW]},
        "rows": rows,
        "columns": columns,
        "published": False,
    }


def csv_path(name: str, study: str) -> Path:
    return BASELINES_FOLDER / name / f"{study}.csv"


def description_path(name: str, study: str) -> Path:
    return BASELINES_FOLDER / name / f"{study}.json"


def saved_baselines(root: Path) -> dict[str, list[str]]:
    """Return the studies of each saved baseline: `{"before-upgrade": ["fsfs-ssd-2014"]}`."""
    studies = {}
    for folder in sorted((root / BASELINES_FOLDER).glob("*")):
        if folder.is_dir():
            studies[folder.name] = sorted(path.stem for path in folder.glob("*.csv"))
    return studies


def describe_baseline(
    study: str, runs: Iterable[tuple[str, int, str]], results: Path
) -> Description:
    """Return when, where and how runs were made, from the contexts of their rounds in the folder `results`.

    A context is the file with the host, the versions and other conditions of a cell in one round. `runs` has
    the cell of each run, and the number and start of its round: ("log/f6/cold", 1, "2026-11-21T07:00:00Z").
    Raise UserError if a context is missing or damaged, is of an earlier version of vcsbench, or has another
    start. Without runs, the times are "".
    """
    contexts: dict[tuple[str, int], Context] = {}
    for cell, number, started_at in runs:
        # All runs of a cell in a round have the same context.
        if (cell, number) not in contexts:
            path = CellRound(study, cell, number, str(results)).context
            contexts[cell, number] = _read_and_check_context(Path(path), started_at)
    all_contexts = list(contexts.values())
    # Texts such as 2026-11-21T07:00:00Z sort by time.
    times = sorted(str(context["started_at"]) for context in all_contexts)
    hosts = [context["host"] for context in all_contexts]
    # Pairs of a name and a value, such as ("svn", "1.14.5"). A name has several values if they changed.
    versions: list[tuple[str, str]] = []
    server_files: list[tuple[str, str]] = []
    conditions: list[tuple[str, str]] = []
    for context in all_contexts:
        versions += context["versions"].items()
        server_files += _digests_of_server_files(context)
        conditions += _conditions_as_text(context)
    return {
        "study": study,
        "vcsbench": __version__,
        "first": times[0] if times else "",
        "last": times[-1] if times else "",
        "rounds": len({number for _, number in contexts}),
        "seeds": _distinct(context.get("seed") for context in all_contexts),
        "hosts": {host_label(host): host for host in hosts},
        "kernel": _distinct(host.get("kernel") for host in hosts),
        "system": _distinct(host.get("os") for host in hosts),
        "governor": _distinct(host.get("governor") for host in hosts),
        "storage": _distinct(_storage_as_text(context) for context in all_contexts),
        "versions": _values_by_name(versions),
        "server_files": _values_by_name(server_files),
        "conditions": _values_by_name(conditions),
        # If the rounds of a cell have different settings, the last one in `runs` counts.
        "cells": {cell: cell_settings(context) for (cell, _), context in contexts.items()},
    }


def _storage_as_text(context: Context) -> str:
    """Return the storage of a cell-round: `/var/tmp ext4 /dev/sda1`."""
    storage: Mapping[str, object] = context["storage"]
    facts = [storage.get(key) for key in ("path", "filesystem", "device")]
    return " ".join(str(fact or "") for fact in facts)


def _digests_of_server_files(context: Context) -> list[tuple[str, str]]:
    """Return the path of each server file with its digest: [("fast/svnserve.args", "0ca9bf16d4e1")]."""
    config = context["axes"].get("config", "")
    digests = []
    for name, text in context["server_files"].items():
        # Twelve digits: the digests are only compared, and chance does not make two of a few files equal.
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        digests.append((f"{config}/{name}", digest))
    return digests


def _conditions_as_text(context: Context) -> list[tuple[str, str]]:
    """Return the readable name and value of each condition without a key of its own: [("nice", "0")]."""
    conditions = []
    for name, value in comparable_conditions(context).items():
        if name not in CONDITIONS_WITH_OWN_KEYS:
            conditions.append((CONDITION_LABELS.get(name, name), _format_condition(value)))
    return conditions


def _read_and_check_context(path: Path, started_at: str) -> Context:
    """Return the context of a cell-round from its file.

    Raise UserError for a file that is missing, damaged, of an earlier version of vcsbench, or of another
    start than `started_at`.
    """
    context = read_context(path)
    if not context:
        raise UserError(
            f"{path}: the file is missing or damaged. Run `make report` to measure it again."
        )
    # With another start, the cell-round was measured again, and the workflow stopped before it collected the
    # new times. So the file has the conditions of other times than the measurements.
    if context["started_at"] != started_at:
        raise UserError(
            f"{path}: the file is newer than the measurements. Run `make report` to write them again."
        )
    check_version(path, context)
    return context


def cell_settings(context: Context) -> CellSettings:
    """Return the settings of a cell that must be equal in a comparison with a baseline.

    `context` is the record of one of its rounds. In the result:

    - `command`: the command line with placeholders, such as `{svn} log {url}`.
    - `identity`, `scale`: a digest of the repository's source, and the share of the published history.
    - `hooks`: the steps before runs, by phase, without the phase `first`.
    - `warmup`: the number of runs that do not count. `targets`: the folder that the command writes to.
    - `cleared_by`: how the caches were emptied before runs, [] for hot runs. Cold runs are faster after
      `evict`, which empties the caches of the repository's files only, than after `drop-caches`.
    """
    repository: Mapping[str, object] = context["repository"]
    cleared_by = set()
    for run in context["runs"]:
        clearing = run["evidence"].get("cache_cleared_by")
        if clearing:
            cleared_by.add(clearing)
    hooks = context.get("hooks")
    if hooks is not None:
        # Contexts of earlier versions lack the phase `first`, and their baselines must stay comparable.
        hooks = {phase: steps for phase, steps in hooks.items() if phase != "first"}
    return {
        "command": context["argv_template"],
        "repository": {
            "name": repository.get("name"),
            "source": repository.get("source"),
            "identity": repository.get("identity"),
            "scale": repository.get("scale"),
        },
        "method": {
            "hooks": hooks,
            "warmup": context.get("warmup"),
            "targets": context["targets"],
            "cleared_by": sorted(cleared_by),
        },
    }


def _distinct(values: Iterable[Item | None]) -> list[Item]:
    """Return the different values in their order, without None and empty texts."""
    return list(dict.fromkeys(value for value in values if value is not None and value != ""))


def _values_by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the different values of each name: `{"svn": ["1.14.2", "1.14.5"]}`."""
    values_by_name: dict[str, list[str]] = {}
    for name, value in pairs:
        values_by_name.setdefault(name, []).append(value)
    return {name: _distinct(values) for name, values in values_by_name.items()}


def _format_condition(value: object) -> str:
    """Return a condition as text: `0 1` of two processors, `none` without a limit."""
    if isinstance(value, list):
        value = " ".join(map(str, value))
    # A nice value of 0 is no missing one.
    return "none" if value in (None, "") else str(value)


def list_changes(before: Description, now: Description) -> list[str]:
    """Return a text for each condition that changed between two descriptions: `kernel 6.1.0 to 6.12`."""
    # The name of a condition, its values before, and its values now: several if it changed between rounds.
    conditions = [
        ("kernel", before["kernel"], now["kernel"]),
        ("system", before["system"], now["system"]),
        ("CPU governor", before["governor"], now["governor"]),
        ("storage", before["storage"], now["storage"]),
    ]
    # A program that only one description has did not change: other cells were measured.
    for program, versions in before["versions"].items():
        current_versions = now["versions"].get(program)
        if versions and current_versions:
            conditions.append((program, versions, current_versions))
    # A condition that only one description has, such as one about a kind of server, cannot be compared.
    for name, values in before.get("conditions", {}).items():
        current_values = now.get("conditions", {}).get(name)
        if current_values:
            conditions.append((name, values, current_values))
    changes = []
    for name, old, new in conditions:
        if old != new:
            old_text = ", ".join(old) or "unknown"
            new_text = ", ".join(new) or "unknown"
            changes.append(f"{name} {old_text} to {new_text}")
    for name, digests in now["server_files"].items():
        # A file that `before` lacks counts as unchanged.
        if before["server_files"].get(name, digests) != digests:
            changes.append(f"server configuration {name}")
    return changes


def read_baseline_columns(path: Path) -> list[str]:
    """Return the names of the columns of a saved study's CSV file. Raise UserError if it cannot be read.

    The file may be large, and each start of the workflow reads its heading. So the rows are not read.
    """
    try:
        with open(open_regular(path), encoding="utf-8", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{path}: cannot be read as CSV: {reason}. Save the baseline again under another name."
        ) from None


def check_baseline_columns(path: Path, columns: Sequence[object], axes: Sequence[str]) -> None:
    """Raise UserError if the `columns` of a saved study's CSV file lack one that a comparison needs."""
    for column in (*axes, "flags", DEFAULT_METRIC):
        if column not in columns:
            raise UserError(
                f"{path}: the column `{column}` is missing. The study has another axis since then: save a "
                f"new baseline."
            )


def read_description(path: Path) -> Description:
    """Return the description of a saved study. Raise UserError if it is missing or damaged."""
    description = read_json(path)
    is_complete = Description.__required_keys__ <= description.keys()
    if not is_complete or not isinstance(description["cells"], dict):
        raise UserError(
            f"{path}: the file is missing or damaged. Save the baseline again under another name."
        )
    return cast(Description, description)
