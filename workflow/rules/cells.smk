# The cells: one hyperfine export per cell and round, and its context beside it.
from vcsbench import unfinished

# The code that measures: an edit of it makes every cell stale.
MEASURING = sorted(str(path) for path in Path("workflow/vcsbench/measure").glob("*.*"))


def cell_files(study):
    """The exports that a study's measurements are made of: all of its rounds, or when the workflow has
    failed, those that there are."""
    wanted = [
        f"results/cells/{study}/{cell.path}/round{number}.json"
        for cell in PLAN.grids[study]
        if not cell.skip
        for number in range(1, PLAN.config["rounds"] + 1)
    ]
    return unfinished.only_fresh(wanted, PLAN) if unfinished.wanted() else wanted


rule cell:
    input:
        # What makes a cell stale is in `spec`, the repository's identity too: copies that are made again
        # after a reboot measure nothing anew.
        copies=lambda wildcards: ancient(
            f"results/repositories/{PLAN.storage_of_cell(wildcards)}.json"
        ),
        code=MEASURING,
    output:
        export="results/cells/{study}/{cell}/round{round}.json",
        context="results/cells/{study}/{cell}/round{round}.context.json",
    log:
        "results/logs/cells/{study}/{cell}/round{round}.log",
    params:
        spec=lambda wildcards: PLAN.spec_json(wildcards.study, wildcards.cell),
    resources:
        # No limit, and no reason to run anew: where the cell stands in the whole run.
        order=lambda wildcards: PLAN.position(wildcards),
    priority: lambda wildcards: -PLAN.position(wildcards)
    # Alone among the workflow's own jobs.
    threads: workflow.cores or 1
    conda:
        "../../envs/subversion.yaml"
    shell:
        "python -m vcsbench.measure {params.spec:q} {input.copies:q} {wildcards.round} {resources.order}"
        " {output.export:q} {output.context:q} 2> {log:q}"


# A report is made of what there is when something has failed: nothing is measured for it.
onerror:
    unfinished.report_what_there_is(PLAN, config, workflow.main_snakefile)
