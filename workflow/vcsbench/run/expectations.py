"""The user's expectations, and the saved baselines that a run compares with."""

from collections.abc import Callable
from pathlib import Path

from vcsbench import axes as axis_table
from vcsbench.axes.axis import Environment
from vcsbench.config import definitions
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.run.study_params import FINDINGS_FILE, StudyParams, study_names
from vcsbench.statistics import baselines


class Expectations:
    """The expectations in the user's files, and the saved baselines."""

    def __init__(self, environment: Environment, params_of: Callable[[str], StudyParams]) -> None:
        """Read and check all files that only tables and pages need. Raise a UserError with file and key.

        Without these checks, a run would fail after it has measured.
        """
        self.environment = environment
        self.config = environment.config
        self.root = environment.root
        # By the name of the baseline: {"january": ["fsfs-ssd-2014"]}.
        self.saved_studies = baselines.saved_baselines(self.root)
        # The file is read only for its errors. Its findings are read again for each study.
        definitions.read_definitions(str(self.root / FINDINGS_FILE))
        for study in self.config.studies:
            params_of(study).check_names()
        self.by_study = self._read_expectations(params_of)
        self._check_baselines(params_of)

    def _read_expectations(
        self, params_of: Callable[[str], StudyParams]
    ) -> dict[str, list[definitions.FindingDefinition]]:
        """Return the expectations in all files of the user by study, also of studies that are not measured.

        Raise UserError for a missing file, an unknown study, and an expectation that is wrong.
        """
        files = [str(self.root / path) for path in self.config.settings.expectations]
        for file in files:
            if not Path(file).is_file():
                text = f"no file {file}. Write it, or remove the entry."
                raise self.config.error(["expectations"], text)
        all_studies = study_names(self.root)
        by_study: dict[str, list[definitions.FindingDefinition]] = {}
        for file in files:
            for study in definitions.read_definitions(file):
                if study not in all_studies:
                    names = ", ".join(all_studies)
                    raise UserError(f"{file}: no study `{study}`. Use one of {names}.")
                # An earlier file has this study, too. read_expectations() then has read all files for it.
                if study in by_study:
                    continue
                choices = self._list_choices(params_of(study).definition)
                baseline_names = self.saved(study)
                by_study[study] = definitions.read_expectations(
                    files, study, choices, baseline_names
                )
        return by_study

    def _list_choices(self, study: Study) -> dict[str, list[str] | None]:
        """Return the values that an expectation on a study may name on each axis: {"cache": ["cold", "hot"]}.

        None in place of a list stands for any value.
        """
        choices: dict[str, list[str] | None] = {**axis_table.values_of(study, self.environment)}
        is_own_repository = self.config.settings.repository is not None
        is_measured = study.name in self.config.studies
        # The user may have written the expectations on repositories that this session does not have.
        if is_own_repository or not is_measured:
            choices.update(dict.fromkeys(study.axes_of("repositories")))
        return choices

    def _check_baselines(self, params_of: Callable[[str], StudyParams]) -> None:
        """Raise UserError for a named baseline that is missing, damaged, or lacks an axis of its study."""
        for name in self.config.settings.baselines:
            studies = self.saved_studies.get(name, [])
            if not any(study in studies for study in self.config.studies):
                names = ", ".join(self.saved_studies) or "none"
                raise self.config.error(
                    ["baselines"],
                    f"no baseline {name!r} of the configured studies. Use one of: {names}, or save it by "
                    f"`make baseline NAME={name}`.",
                )
        for study in self.config.studies:
            for name in self.baselines(study):
                # The description is read only for its errors.
                baselines.read_description(self.root / baselines.description_path(name, study))
                # The study may have got another axis since the baseline was saved.
                path = self.root / baselines.csv_path(name, study)
                columns = baselines.read_baseline_columns(path)
                baselines.check_baseline_columns(path, columns, params_of(study).axes)

    def for_study(self, study: str) -> list[definitions.FindingDefinition]:
        return self.by_study.get(study, [])

    def of_other_studies(self) -> dict[str, list[definitions.FindingDefinition]]:
        """Return the expectations of studies that this run does not measure."""
        measured = self.config.studies
        return {study: each for study, each in self.by_study.items() if study not in measured}

    def baselines(self, study: str) -> list[str]:
        """Return the saved baselines that are configured, or named by an expectation of a study."""
        names = list(self.config.settings.baselines)
        for expectation in self.for_study(study):
            compare = expectation.get("compare", {})
            if "to" in compare:
                names.append(compare["to"])
        saved = self.saved(study)
        return [name for name in dict.fromkeys(names) if name in saved]

    def saved(self, study: str) -> list[str]:
        """Return all saved baselines of a study, which its history shows."""
        return [name for name, studies in self.saved_studies.items() if study in studies]

    def saved_files(self, study: str) -> list[str]:
        """Return the files of all saved baselines of a study, relative to the checkout."""
        paths: list[Path] = []
        for name in self.saved(study):
            paths += [baselines.csv_path(name, study), baselines.description_path(name, study)]
        return [str(path) for path in paths if (self.root / path).exists()]
