# The cells: a hyperfine export and its context for each cell and round; the order and number of rounds; and the
# system calls of commands, from separate, untimed runs.


rule cell:
    input:
        cell_inputs,
    output:
        export="results/cells/{study}/{cell}/round{round}.json",
        context="results/cells/{study}/{cell}/round{round}.context.json",
    log:
        "results/logs/cells/{study}/{cell}/round{round}.log",
    # The order of the run, which the greedy scheduler follows.
    priority: lambda wildcards: -PLAN.position(wildcards)
    conda:
        "../../envs/subversion.yaml"
    # Alone among the jobs of the workflow.
    threads: lambda wildcards: workflow.cores
    params:
        # A change of one of these makes the result stale.
        code=lambda wildcards: PLAN.stale_by(wildcards.study, wildcards.cell, "code"),
        server=lambda wildcards: PLAN.stale_by(wildcards.study, wildcards.cell, "server_files"),
        binaries=lambda wildcards: PLAN.stale_by(wildcards.study, wildcards.cell, "binaries"),
        settings=lambda wildcards: PLAN.stale_by(wildcards.study, wildcards.cell, ""),
        task=cell_task,
    shell:
        "python -m vcsbench.run.cell {params.task} {output.export:q} 2> {log:q}"


# How many rounds each block of cells gets next, decided from all rounds before. No job where `rounds` is fixed.
# Earlier decisions are kept: a cell that became stale is measured in as many rounds as were decided.
checkpoint decide:
    input:
        grid="results/grid/{study}.csv",
        exports=lambda wildcards: SAMPLING.before(wildcards.study, int(wildcards.number)),
        # They record how long the preparation took.
        prepared=lambda wildcards: PROJECT.prepared(wildcards.study),
    output:
        "results/budget/{study}/pass{number}.json",
    log:
        "results/logs/decide/{study}/pass{number}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("decide"),
        minutes=lambda wildcards: PLAN.config.minutes_of(wildcards.study),
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study, int(wildcards.number) - 1),
        blocks=lambda wildcards: SAMPLING.rounds_before(wildcards.study, int(wildcards.number)),
        of=lambda wildcards: SAMPLING.histories(wildcards.study),
        terms=lambda wildcards: inputs.terms_of(wildcards, PROJECT.here, LIMITS),
        findings=inputs.findings_of,
        by=inputs.by_of,
        thresholds=PLAN.config.thresholds,
        logs="results/logs/cells/{study}",
    script:
        "../scripts/decide.py"


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
        code=code_of_module("run.count"),
        digest=lambda wildcards: PLAN.recipe(wildcards.study, wildcards.cell)["digest"],
        recipe=lambda wildcards, output: PLAN.recipe_json(wildcards.study, wildcards.cell),
    shell:
        "python -m vcsbench.run.count {params.recipe:q} {output:q} 2> {log:q}"


# What this machine can do at most with as many clients as a study has.
rule ceiling:
    output:
        "results/ceiling/{study}.json",
    log:
        "results/logs/ceiling/{study}.log",
    conda:
        "../../envs/python.yaml"
    threads: lambda wildcards: workflow.cores
    params:
        code=code_of_module("run.ceiling"),
        clients=lambda wildcards: PLAN.clients_of(wildcards.study),
    shell:
        "python -m vcsbench.run.ceiling {output:q} {params.clients} 2> {log:q}"
