# What this machine can do at most, beside what a study has many clients do on it.


rule ceiling:
    input:
        code=code_of_module("run.ceiling"),
    output:
        "results/ceiling/{study}.json",
    log:
        "results/logs/ceiling/{study}.log",
    conda:
        "../../envs/python.yaml"
    # Alone among the workflow's own jobs: it holds the machine's lock.
    threads: workflow.resource_settings.cores or 1
    params:
        clients=lambda wildcards: PLAN.clients_of(wildcards.study),
    shell:
        "python -m vcsbench.run.ceiling {output:q} {params.clients} 2> {log:q}"
