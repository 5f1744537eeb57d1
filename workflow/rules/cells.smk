# The cells: one hyperfine export per cell and round, and its context beside it.
from vcsbench.evidence import judgement
from vcsbench.run.dependencies import signed
from vcsbench.run.partial import report_what_there_is, report_what_was_passed_over


rule cell:
    input:
        # What makes a cell stale is in its recipe, the repository's identity and the code that measures too. So
        # copies that are made again after a reboot measure nothing anew: for a cell whose result is that of its
        # recipe, they are `ancient`. For no other: Snakemake would not look at its params in a run that makes
        # copies. The conda environments of the cell's build, if it is one, are not: made anew, they are another.
        # (One function, and few inputs: each costs a tenth of a start, and the scheduler looks at them all the time.)
        signed(lambda wildcards: HOUSE.inputs_of(wildcards, ancient)),
    output:
        # The context is written beside it, and the two know each other by digests. Snakemake is not told of
        # it: it would look after 4,000 more files at each start.
        "results/cells/{study}/{cell}/round{round}.json",
    log:
        "results/logs/cells/{study}/{cell}/round{round}.log",
    priority: signed(lambda wildcards: -PLAN.position(wildcards))
    conda:
        "../../envs/subversion.yaml"
    # Alone among the workflow's own jobs.
    threads: workflow.resource_settings.cores or 1
    resources:
        # No limits, and no reason to run anew: where the cell stands in the whole run, and why there.
        order=signed(lambda wildcards: PLAN.position(wildcards)),
        seed=PLAN.config["seed"],
        # They judge what was measured: the measurements do that again, and by theirs.
        thresholds=judgement.pack(PLAN.config["thresholds"]),
    params:
        recipe=signed(lambda wildcards: PLAN.recipe_json(wildcards.study, wildcards.cell)),
    shell:
        # Its bytecode is kept, apart from the sources, where the environment forbids it there: else each
        # cell-round compiles it anew. -S: it needs the standard library only.
        "PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=.snakemake/vcsbench-bytecode"
        " python -S -c 'from vcsbench.run import job; job.run()'"
        " {params.recipe:q} {wildcards.round} {resources.order}"
        " {resources.seed} {resources.thresholds:q} {output:q} 2> {log:q}"


# Snakemake counts the jobs of the last second by a timer for each of them, and each timer that ends begins
# another: after a hundred cell-rounds they take a tenth of a core from what is timed. The limit is for clusters.
onstart:
    gc.freeze()
    gc.enable()
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
    if CONSOLE:
        CONSOLE.begin(workflow.dag.needrun_jobs, WALK.seconds_left())


# A report is made of what there is when something has failed: nothing is measured for it.
onerror:
    if CONSOLE:
        CONSOLE.end()
    if CLUSTER:
        CLUSTER.collect()
    # One that was ended goes nowhere.
    goes_on = WALK.is_unfinished() and not workflow.scheduler._user_kill
    report_what_there_is(ROOT, config, workflow.main_snakefile, goes_on)


onsuccess:
    if CONSOLE:
        CONSOLE.end()
    if CLUSTER:
        CLUSTER.collect()
        report_what_was_passed_over(ROOT, config, workflow.main_snakefile, [])
    elif not PLAN.passes and HOUSE.only_copies_were_made():
        report_what_was_passed_over(
            ROOT, config, workflow.main_snakefile, workflow.dag_settings.targets
        )
