# vcsbench: which repository format, packing, server, configuration or cache is faster for which version-control
# operation, on this machine? The rules are included in the order in which the data flows.
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/grid.smk"
include: "workflow/rules/builds.smk"
include: "workflow/rules/repositories.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/measurements.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/expectations.smk"
include: "workflow/rules/report.smk"


# On a cluster, a job is a node's share of the cells. These rules run on the login node.
localrules:
    all,
    grid,
    node_work,
    measurements,
    measured,
    tables,
    published_tables,
    published,
    checks,
    check,
    report,
    index,


rule all:
    default_target: True
    # Snakemake makes a removed file again only if a target names it.
    input:
        "reports/index.html",
        raw_data,
        expand(STUDY_FILES, study=PLAN.config.studies),
