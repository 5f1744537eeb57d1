"""What the rules behind the measurements take in: code, definitions of tables, published numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench import modules
from vcsbench.axes import values
from vcsbench.axes.here import Here
from vcsbench.compare import baselines
from vcsbench.config.definitions import read_expectations, read_findings, studies_of
from vcsbench.config.study import Study, load_study
from vcsbench.errors import UserError

FINDINGS = "config/published/findings.yaml"


@cache
def code(script: str) -> list[str]:
    """The files of vcsbench that one of workflow/scripts computes with: Snakemake does not see what a script
    imports."""
    root = modules.PACKAGE.parent.parent
    files = modules.closure(root / "workflow" / "scripts" / f"{script}.py")
    return [str(path.relative_to(root)) for path in files]


@cache
def study_file(name: str) -> Study:
    """A study as its file has it, measured here or not."""
    return load_study(f"config/studies/{name}.yaml")


def studies() -> list[str]:
    """The names of all studies that have a file."""
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


def definition_of(wildcards: Any, here: Here) -> dict[str, Any]:
    """A table's definition: a change of it reruns that table alone."""
    study = study_file(wildcards.study)
    tables = values.resolved_tables(study, values.values_of(study, here))
    if wildcards.table not in tables:
        raise UserError(
            f"config/studies/{wildcards.study}.yaml: has no table `{wildcards.table}`; "
            f"it has {', '.join(tables)}"
        )
    return tables[wildcards.table]


def tables_of(wildcards: Any) -> dict[str, Any]:
    """The definitions of all of a study's tables."""
    return study_file(wildcards.study).tables


def axes_of(wildcards: Any, *_: Any) -> list[str]:
    """The axes of a study."""
    return list(study_file(wildcards.study).axes)


def order_of(wildcards: Any, here: Here) -> dict[str, list[str]]:
    """Each axis of a study with its values in the one order that every table and page has."""
    study = study_file(wildcards.study)
    return values.order_of(study, here, _published_values(wildcards.study))


@cache
def _published_values(study: str) -> dict[str, list[str]]:
    published = study_file(study).published
    if not published:
        return {}
    with Path("config/published", published["numbers"]).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {axis: list(dict.fromkeys(r[axis] for r in rows if r[axis])) for axis in rows[0]}


def builds_of(wildcards: Any, builds: Iterable[str]) -> list[str]:
    """The configuration's builds for a study that takes them: others do not depend on them."""
    return list(builds) if "builds" in study_file(wildcards.study).axes.values() else []


def caveats_of(wildcards: Any) -> dict[str, str]:
    """The caveat of each command of a study that has one."""
    commands = study_file(wildcards.study).commands
    return {name: c["caveat"] for name, c in commands.items() if "caveat" in c}


def findings_of(wildcards: Any) -> list[dict[str, Any]]:
    """The findings of a study: a change of them reruns nothing of another study."""
    return read_findings(FINDINGS, wildcards.study, list(axes_of(wildcards)))


def published_scale_of(wildcards: Any) -> float | None:
    """The scale of a study's published numbers; None if it has none."""
    return (study_file(wildcards.study).published or {}).get("scale")


def published_numbers(wildcards: Any) -> str:
    """The file of a study's published numbers."""
    published = study_file(wildcards.study).published
    if not published:
        raise UserError(
            f"config/studies/{wildcards.study}.yaml: has no `published` numbers to make tables of"
        )
    return f"config/published/{published['numbers']}"


def published_tables(study: str) -> list[str]:
    """The files of all tables that a study's published numbers make."""
    if not study_file(study).published:
        return []
    tables = study_file(study).tables
    names = [name for name, table in tables.items() if table.get("published", True)]
    return [f"results/published/{study}/{name}.{end}" for name in names for end in ("csv", "md")]


def measured_tables(study: str) -> list[str]:
    """The files of all tables of a study's measurements."""
    return [
        f"results/tables/{study}/{n}.{e}" for n in study_file(study).tables for e in ("csv", "md")
    ]


class Expected:
    """The user's expectations, from the files that the configuration names, and the saved baselines that
    they or the configuration compare with."""

    def __init__(self, here: Here) -> None:
        """Read and check them all; raises a UserError that names the file and the key."""
        self.here = here
        self.config = config = here.config
        self.files = [str(config.root / path) for path in config["expectations"]]
        where = config.where(["expectations"])
        for path in self.files:
            if not Path(path).is_file():
                raise UserError(
                    f"{where}: `expectations`: there is no file {path}; take it out or write it"
                )
        self.by_study: dict[str, list[dict[str, Any]]] = {}
        known = studies()
        for study in studies_of(self.files):
            if study not in known:
                raise UserError(
                    f"{', '.join(self.files)}: there is no study `{study}`; there are {', '.join(known)}"
                )
            self.by_study[study] = read_expectations(self.files, study, self._values(study))

        self._check_baselines()

    def _check_baselines(self) -> None:
        there = baselines.saved()
        where = self.config.where(["baselines"])
        for name in self.config["baselines"]:
            if not set(there.get(name, [])) & set(self.config.studies):
                known = ", ".join(there) or "none"
                raise UserError(
                    f"{where}: `baselines`: there is no baseline {name} of the studies that are run; "
                    f"there are: {known}. `make baseline NAME={name}` saves one"
                )

    def baselines(self, study: str) -> list[str]:
        """The baselines to compare a study with: those of the configuration and of its expectations
        that have it."""
        said = [e["compare"].get("to") for e in self.of(study) if "compare" in e]
        there = baselines.saved()
        named = dict.fromkeys([*self.config["baselines"], *said])
        return [name for name in named if study in there.get(name, [])]

    def baseline_files(self, study: str) -> list[str]:
        """The files of the baselines to compare a study with."""
        parts = (baselines.csv_of, baselines.about_of)
        return [str(part(name, study)) for name in self.baselines(study) for part in parts]

    def baseline_tables(self, study: str) -> list[str]:
        """The files of their tables."""
        stems = [f"results/tables/{study}/{name}-vs-now" for name in self.baselines(study)]
        return [f"{stem}.{end}" for stem in stems for end in ("csv", "md", "json")]

    def _values(self, study: str) -> dict[str, list[str] | None]:
        """Each axis with its values; a repository may have any name."""
        known = study_file(study)
        found = values.values_of(known, self.here)
        return {a: None if given == "repositories" else found[a] for a, given in known.axes.items()}

    def of(self, study: str) -> list[dict[str, Any]]:
        """Those of a study."""
        return self.by_study.get(study, [])

    def elsewhere(self) -> dict[str, list[dict[str, Any]]]:
        """Those of the studies that are not run."""
        return {s: found for s, found in self.by_study.items() if s not in self.config.studies}
