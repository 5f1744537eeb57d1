# The configuration, the project, the input functions of the rules, and the begin and the end of a run.
import os
import re
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from snakemake.settings.types import DeploymentMethod

# The paths in all rules are relative to the clone, in which Snakemake works.
ROOT = Path.cwd()
# Snakemake would print a WorkflowError with the line of this file, so a sentence ends the program.
WORKFLOW = Path(str(workflow.current_basedir)).parent
if not WORKFLOW.is_dir():
    sys.exit("vcsbench runs from a clone of its repository, not as a module. Clone it.")
if not os.path.samefile(WORKFLOW.parent, ROOT):
    sys.exit(
        f"{ROOT}: vcsbench works in its clone only. For another folder, make another clone there."
    )

# Scripts inherit it. A command needs the variable, which Snakemake removes for conda environments.
sys.path.insert(0, str(WORKFLOW))

from vcsbench.config.configuration import read_configuration
from vcsbench.errors import UserError
from vcsbench.run.job import clear_line

# Before the directive `configfile`, workflow.configfiles has the files of the option --configfile. A later file has
# precedence.
CONFIG_FILES = [Path("config/config.yaml"), *map(Path, workflow.configfiles)]
# Snakemake reads YAML 1.1 without limits, where `minutes: 1:30` is 90 and a long row of such numbers takes minutes.
# So vcsbench reads each configuration file first, and accepts only values that mean the same to both.
try:
    # The mapping has the values of --config, which override files.
    merged = read_configuration(CONFIG_FILES, workflow.config_settings.config)
except UserError as error:
    sys.exit(f"{clear_line(sys.stderr)}{error}")


configfile: "config/config.yaml"


# Snakemake merges mappings at each level. A repository of two files would have keys of both.
config.clear()
config.update(merged)

PYTHONPATH = shlex.quote(str(WORKFLOW)).replace("{", "{{").replace("}", "}}")
JOB_SHELL = WORKFLOW / "job_shell.sh"
# Some programs unpack an archive without its execute bits.
if not os.access(JOB_SHELL, os.X_OK):
    try:
        JOB_SHELL.chmod(0o755)
    except OSError:
        sys.exit(f"{JOB_SHELL}: cannot be run. Its owner must run: chmod +x {JOB_SHELL}")
shell.executable(str(JOB_SHELL))
shell.prefix(f"set -euo pipefail; export PYTHONPATH={PYTHONPATH}; ")

from vcsbench.result_paths import CellRound
from vcsbench.modules import code_digest, script_code
from vcsbench.plan.recipe import trace_digest
from vcsbench.run.project import STUDY_FILES, open_project

try:
    PROJECT = open_project(
        config,
        ROOT,
        CONFIG_FILES,
        deployed=DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method,
    )
    PLAN, SAMPLING = PROJECT.plan, PROJECT.sampling
    EXPECTATIONS, CLUSTER = PROJECT.expectations, PROJECT.cluster
except UserError as error:
    sys.exit(f"{clear_line(sys.stderr)}{error}")


def one_of(names):
    """Return a pattern for these names only. Snakemake refuses a target with another name in one sentence."""
    return "|".join(re.escape(name) for name in names)


wildcard_constraints:
    study=one_of(PLAN.config.studies),
    storage=one_of(PROJECT.repositories.storages),
    repo=one_of(PROJECT.environment.repositories),
    format="[a-z0-9-]+",
    cell="[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*(~2)?",
    round="[0-9]+",
    number="[0-9]+",
    job="[0-9]+",
    environment="[A-Za-z0-9._-]+",


def code_of(script):
    """Return the digest of the code of a script, which is a param of its rule."""
    return script_code(WORKFLOW / "scripts" / f"{script}.py")


def cell_inputs(wildcards):
    """Return the records of all that is prepared for a round of a cell, and the files of its environments.

    A record is, for example, that of the copies on a storage. A recipe (everything that a measurement depends on)
    identifies the repository. So a result that is up to date is not measured again if copies were made again after
    a reboot: the times of `ancient` records do not count. All other cells need the plain records, because Snakemake
    compares no params of a job that depends on a running job. Raise UserError on a cluster.
    """
    if CLUSTER:
        raise UserError(
            "On a cluster, nodes measure whole blocks: choose them with `studies` and `grid`."
        )
    records = PROJECT.records(wildcards.study, wildcards.cell)
    if PLAN.is_fresh(CellRound(wildcards.study, wildcards.cell, int(wildcards.round))):
        records = ancient(records)
    return [*records, *PLAN.environments(wildcards.study, wildcards.cell)]


def exports(wildcards):
    """Return the exports (result files) of a study. Raise Snakemake's exception until all rounds are decided."""
    return SAMPLING.exports(wildcards.study, checkpoints.decide.get)


def raw_data(wildcards):
    """Return exports, contexts, last decisions and system-call counts of all studies (Project.raw_data)."""
    get = checkpoints.decide.get
    return [file for study in PLAN.config.studies for file in PROJECT.raw_data(study, get)]


def other_pages(wildcards):
    """Return the pages of earlier runs in the folder of reports, and their records. The index lists them, too."""
    made = [f"{name}.html" for name in [*PLAN.config.studies, "index"]]
    pages = []
    for page in (ROOT / "reports").glob("*.html"):
        # Snakemake takes braces for wildcards.
        has_braces = "{" in page.name or "}" in page.name
        if page.name not in made and page.is_file() and not has_braces:
            pages.append(f"reports/{page.name}")
            record = f"results/page/{page.stem}.json"
            if (ROOT / record).is_file():
                pages.append(record)
    return sorted(pages)


onstart:
    PROJECT.begin()


onsuccess:
    PROJECT.end()


onerror:
    PROJECT.end(failed=True)
