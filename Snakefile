# vcsbench: which repository format, packing, server, configuration or cache is faster for which
# version-control operation, on this machine? The files below are in the order in which data flows.
import gc
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod
from snakemake.utils import min_version

min_version("9.0")

# The graph of thousands of cell-rounds has millions of objects, and hardly any garbage: to look for some as
# it grows takes a sixth of a start. It is looked for again when jobs begin.
gc.disable()

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT / "workflow"))
# The scripts and the measuring process import vcsbench too, in whichever environment they run.
os.environ.update(PYTHONPATH=str(ROOT / "workflow"))

from vcsbench.errors import UserError
from vcsbench.plan.fresh import recall
from vcsbench.run.cluster import Cluster
from vcsbench.run.console import take_over
from vcsbench.run.demands import Expectations
from vcsbench.run.dependencies import command_line, no_pipes, plain_params, signed_resources
from vcsbench.run.house import House
from vcsbench.run.job import STANDBY
from vcsbench.run.lock import begin_here
from vcsbench.run.partial import is_partial
from vcsbench.run.provenance import note_command
from vcsbench.run.recovery import mend, settle
from vcsbench.storages.runfolder import standby_folder


configfile: "config/config.yaml"


wildcard_constraints:
    study="[a-z0-9-]+",
    table="[a-z0-9-]+",
    baseline="[A-Za-z0-9][A-Za-z0-9._-]*",
    storage="[A-Za-z0-9._-]+",
    repo="[A-Za-z0-9][A-Za-z0-9._-]*",
    cell="[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*(~2)?",
    round="[0-9]+",
    environment="[A-Za-z0-9._-]+",


plain_params()
signed_resources()
no_pipes()
EXECUTOR, ASKED_FOR = command_line()
os.environ[STANDBY] = str(standby_folder(ROOT))

try:
    # In the jobs of a cluster, Snakemake reads this file too.
    ALONE = workflow.is_main_process and begin_here(ROOT, sys.argv[1:])
    if ALONE:
        mend(ROOT)
        if not is_partial():
            note_command(ROOT, sys.argv[1:])
    else:
        recall(ROOT)
    HOUSE = House(
        config,
        ROOT,
        [Path(file) for file in reversed(workflow.configfiles)],
        deployed=DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method,
        elsewhere=workflow.remote_exec or EXECUTOR != "local",
    )
    PLAN = HOUSE.plan
    EXPECTATIONS = Expectations(HOUSE.here)
    # Of a run whose cells are measured on the nodes of a cluster.
    CLUSTER = Cluster(HOUSE, config) if HOUSE.elsewhere else None
    config.update({"rounds": HOUSE.config["rounds"]} if CLUSTER else {})
    if CLUSTER and workflow.is_main_process:
        CLUSTER.check_targets(ASKED_FOR)
    if CLUSTER and ALONE:
        CLUSTER.write()
    elif ALONE:
        settle(HOUSE)
    CONSOLE = take_over(workflow.output_settings, PLAN.block) if ALONE else None
except UserError as error:
    raise WorkflowError(str(error)) from None


include: "workflow/rules/grid.smk"
include: "workflow/rules/repositories.smk"
include: "workflow/rules/builds.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/calls.smk"
include: "workflow/rules/ceiling.smk"
include: "workflow/rules/budget.smk"
include: "workflow/rules/measurements.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/expectations.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    # The report of what was measured on a cluster is made when all of it is there.
    input:
        CLUSTER.records() if CLUSTER else "reports/index.html",
