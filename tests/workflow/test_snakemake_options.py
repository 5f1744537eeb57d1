"""Snakemake's own options on a real run: its report, conda environments, the catalog's workflow."""

import os
import zipfile

import pytest

from project import HOT, STUDY, needs, write_program

pytestmark = needs("svn", "svnserve", "hyperfine")
# Programs of an environment are those on the PATH.
CONDA = """\
#!/bin/bash
case "$*" in
info*) echo '{"conda_prefix": "PREFIX", "platform": "linux-64"}' ;;
--version) echo "conda 25.1.0" ;;
config*) echo '{"get": {"channel_priority": "strict"}}' ;;
*create*)
    while [[ $1 != --prefix ]]; do shift; done
    mkdir -p "$2/conda-meta" && touch "$2/conda-meta/history"
    ;;
clean*) ;;
*) exit 1 ;;
esac
"""
IN_CONDA = ("--sdm", "conda")


@pytest.fixture(scope="module")
def reported(shared_project):
    """A project after a run in conda environments."""
    prefix = shared_project.path / "conda"
    write_program(prefix / "bin" / "conda", CONDA.replace("PREFIX", str(prefix)))
    (prefix / "bin" / "activate").touch()
    shared_project.configure({**HOT, "ra": "file"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{prefix / 'bin'}:{os.environ['PATH']}")
        shared_project.succeed(*IN_CONDA)
        yield shared_project


def test_run_in_conda_environments_measures_and_reports(reported):
    assert len(reported.rows(f"measurements/{STUDY}.csv")) == 1 and reported.page(STUDY)
    assert list((reported.path / ".snakemake/conda").glob("*/conda-meta/history"))


def test_report_of_snakemake_has_tables_and_no_warning(reported):
    output = reported.succeed("--report", "report.zip", *IN_CONDA)
    assert "warning" not in output.lower()
    names = zipfile.ZipFile(reported.path / "report.zip").namelist()
    page = next(name for name in names if name.endswith("report.html"))
    text = zipfile.ZipFile(reported.path / "report.zip").read(page).decode()
    assert f"{STUDY}.html" in text and "f6-vs-f7" in text


def test_workflow_of_the_catalog_has_the_same_jobs(reported):
    assert reported.is_complete("--snakefile", "workflow/Snakefile", *IN_CONDA)
