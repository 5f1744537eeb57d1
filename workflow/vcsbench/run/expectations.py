"""What the user demands of the results: expectations, and baselines to compare them with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.axes.here import Here
from vcsbench.axes.values import values_of
from vcsbench.config.definitions import read_expectations, studies_of
from vcsbench.errors import UserError
from vcsbench.metrics import names
from vcsbench.run.inputs import studies, study_file
from vcsbench.statistics import baselines

# Of a saved study: what was measured, and what stands beside that.
BOTH = (baselines.csv_path, baselines.description_path)


class Expectations:
    """The user's expectations, from the files that the configuration names, and the saved baselines that
    they or the configuration compare with."""

    def __init__(self, here: Here) -> None:
        """Read and check them all; raises a UserError that names the file and the key."""
        self.here = here
        self.config = config = here.config
        self.files = [str(config.root / path) for path in config.settings.expectations]
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
            axes = self._values(study)
            self.by_study[study] = read_expectations(self.files, study, axes, names())
        self._check_baselines()

    def _check_baselines(self) -> None:
        there = baselines.saved_baselines()
        where = self.config.where(["baselines"])
        for name in self.config.settings.baselines:
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
        there = baselines.saved_baselines()
        named = dict.fromkeys([*self.config.settings.baselines, *said])
        return [name for name in named if study in there.get(name, [])]

    def baseline_files(self, study: str) -> list[str]:
        """The files of the baselines to compare a study with."""
        return [str(part(name, study)) for name in self.baselines(study) for part in BOTH]

    def saved(self, study: str) -> list[str]:
        """All saved baselines that have a study, whether it is to be compared with them or not."""
        return [name for name, studies in baselines.saved_baselines().items() if study in studies]

    def saved_files(self, study: str) -> list[str]:
        """The files of all of them."""
        files = (part(n, study) for n in self.saved(study) for part in BOTH)
        return [str(file) for file in files if file.exists()]

    def history(self, study: str) -> list[str]:
        """The file of what the study was over the saved baselines, if there are some."""
        return [f"results/history/{study}.json"] if self.saved(study) else []

    def _values(self, study: str) -> dict[str, list[str] | None]:
        """Each axis with its values; a repository may have any name."""
        known = study_file(study)
        found = values_of(known, self.here)
        return {a: None if given == "repositories" else found[a] for a, given in known.axes.items()}

    def of(self, study: str) -> list[dict[str, Any]]:
        """Those of a study."""
        return self.by_study.get(study, [])

    def elsewhere(self) -> dict[str, list[dict[str, Any]]]:
        """Those of the studies that are not run."""
        return {s: found for s, found in self.by_study.items() if s not in self.config.studies}
