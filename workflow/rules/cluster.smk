# On a cluster: a job per node, which prepares and measures whole blocks there (run/node.py). So no ratio compares
# two nodes.


rule node_work:
    output:
        "results/cluster/job{job}.work.json",
    log:
        "results/logs/nodes/job{job}.work.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("write_node_work"),
        work=lambda wildcards: asdict(CLUSTER.work(int(wildcards.job))),
    script:
        "../scripts/write_node_work.py"


rule node_job:
    input:
        # A change of the configuration that concerns no cell measures nothing.
        ancient("results/cluster/job{job}.work.json"),
    output:
        "results/cluster/job{job}.json",
    log:
        "results/logs/nodes/job{job}.log",
    # A node runs Snakemake.
    conda:
        "../../envs/workflow.yaml"
    threads: lambda wildcards: CLUSTER.cores
    resources:
        **(CLUSTER.constraint if CLUSTER else {}),
        slurm_extra=lambda wildcards, attempt: CLUSTER.slurm_extra(int(wildcards.job), attempt),
        # Profiles for schedulers other than Slurm use this.
        host=lambda wildcards, attempt: CLUSTER.host(int(wildcards.job), attempt),
        attempt=lambda wildcards, attempt: attempt,
    params:
        work=lambda wildcards: CLUSTER.digest(int(wildcards.job)),
        root=lambda wildcards, output: str(PROJECT.root),
    shell:
        "python -m vcsbench.run.node {params.root:q} {wildcards.job} {resources.attempt} {output:q} 2>> {log:q}"
