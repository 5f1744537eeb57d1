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


@pytest.fixture(scope="module")
def reported(shared_project):
    shared_project.configure({**HOT, "ra": "file"})
    shared_project.succeed()
    return shared_project


def test_report_of_snakemake_has_tables_and_no_warning(reported):
    output = reported.succeed("--report", "report.zip")
    assert "warning" not in output.lower()
    names = zipfile.ZipFile(reported.path / "report.zip").namelist()
    page = next(name for name in names if name.endswith("report.html"))
    text = zipfile.ZipFile(reported.path / "report.zip").read(page).decode()
    assert f"{STUDY}.html" in text and "f6-vs-f7" in text


def test_workflow_of_the_catalog_has_the_same_jobs(reported):
    assert reported.is_complete("--snakefile", "workflow/Snakefile")


def test_cells_run_in_conda_environments(project):
    program = write_program(project.path / "conda" / "bin" / "conda", CONDA)
    program.write_text(CONDA.replace("PREFIX", str(program.parents[1])))
    (program.parent / "activate").touch()
    project.configure({**HOT, "ra": "file"})
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    target = f"results/measurements/{STUDY}.csv"
    done = project.snakemake(target, "--sdm", "conda", environment=path)
    assert done.returncode == 0, done.stdout
    assert len(project.rows(f"measurements/{STUDY}.csv")) == 1
