# The system calls of each cell of a study that counts them: one run of it under strace, which nobody times.
from vcsbench.run.dependencies import code_of_module


rule calls:
    input:
        # What copies are of is in the recipe; made again after a reboot, they are no reason to count again.
        signed(lambda wildcards: ancient(HOUSE.records(wildcards.study, wildcards.cell))),
        code=code_of_module("run.count"),
    output:
        "results/calls/{study}/{cell}.json",
    log:
        "results/logs/calls/{study}/{cell}.log",
    conda:
        "../../envs/subversion.yaml"
    # Alone among the workflow's own jobs: it holds the machine's lock.
    threads: workflow.resource_settings.cores or 1
    params:
        recipe=signed(lambda wildcards: PLAN.recipe_json(wildcards.study, wildcards.cell)),
    shell:
        "python -S -m vcsbench.run.count {params.recipe:q} {output:q} 2> {log:q}"
