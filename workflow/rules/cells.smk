# Cells: a hyperfine export and its context for each cell and round, the number of rounds, and system calls.


rule cell:
    input:
        cell_inputs,
    output:
        export="results/cells/{study}/{cell}/round{round}.json",
        context="results/cells/{study}/{cell}/round{round}.context.json",
    log:
        "results/logs/cells/{study}/{cell}/round{round}.log",
    # The greedy scheduler follows the drawn order.
    priority: lambda wildcards: -PLAN.position(wildcards.study, wildcards.cell, int(wildcards.round))
    conda:
        "../../envs/subversion.yaml"
    # Nothing else runs next to a measurement. A resource with a limit of 1 would keep cells apart, but a load or a
    # table would still run next to a cell. A function, because a dry run has no cores.
    threads: lambda wildcards: workflow.cores
    params:
        # A change of the digest makes the result out of date. Snakemake does not compare params that use `output`
        # or `input`, such as the order and the seed.
        recipe=lambda wildcards: PLAN.recipe(wildcards.study, wildcards.cell)["digest"],
        task=lambda wildcards, output: PROJECT.cell_arguments(
            wildcards.study, wildcards.cell, int(wildcards.round)
        ),
    shell:
        "python -m vcsbench.run.cell_job {params.task} {output.export:q} {output.context:q} 2> {log:q}"


# The rounds of each block of cells, decided from all rounds before; no job if `rounds` is fixed. Decisions stay: a
# cell that is out of date is measured in as many rounds as were decided.
checkpoint decide:
    input:
        grid="results/grid/{study}.csv",
        # The exports of all batches before this one.
        exports=lambda wildcards: PLAN.exports_of_study(wildcards.study, int(wildcards.number) - 1),
        # These records have the duration of each preparation.
        prepared=lambda wildcards: PROJECT.preparation_records(wildcards.study),
    output:
        "results/budget/{study}/batch{number}.json",
    log:
        "results/logs/decide/{study}/batch{number}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("decide_rounds"),
        minutes=lambda wildcards: PLAN.config.minutes_of(wildcards.study),
        # Snakemake does not compare a param that uses `output`. So another number of studies decides nothing again.
        studies=lambda wildcards, output: len(PLAN.config.studies),
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study, int(wildcards.number) - 1),
        blocks=lambda wildcards: PLAN.batches[wildcards.study].rounds(int(wildcards.number) - 1),
        # A digest of the repositories of each block.
        of=lambda wildcards: dict(PLAN.batches[wildcards.study].blocks),
        settings=lambda wildcards: PROJECT.params_of(wildcards.study).settings.of_times().to_param(),
        findings=lambda wildcards: PROJECT.params_of(wildcards.study).findings,
    script:
        "../scripts/decide_rounds.py"


rule calls:
    input:
        lambda wildcards: ancient(PROJECT.records(wildcards.study, wildcards.cell)),
    output:
        "results/calls/{study}/{cell}.json",
    log:
        "results/logs/calls/{study}/{cell}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: lambda wildcards: workflow.cores
    params:
        code=script_code(WORKFLOW / "vcsbench" / "run" / "cell_job.py"),
        digest=lambda wildcards: trace_digest(PLAN.recipe(wildcards.study, wildcards.cell)),
        recipe=lambda wildcards, output: PLAN.recipe_json(wildcards.study, wildcards.cell),
        root=lambda wildcards, output: str(PROJECT.root),
    shell:
        "python -m vcsbench.run.cell_job --calls {params.root:q} {params.recipe:q} {params.digest} {output:q} 2> {log:q}"
