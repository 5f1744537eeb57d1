# On a cluster: a job per node, which prepares and measures whole blocks there (run/node.py). So no ratio compares
# two nodes.


rule node_job:
    output:
        "results/cluster/job{job}.json",
    log:
        "results/logs/nodes/job{job}.log",
    wildcard_constraints:
        job="[0-9]+",
    # A node runs Snakemake.
    conda:
        "../../envs/workflow.yaml"
    threads: lambda wildcards: CLUSTER.cores
    resources:
        **(CLUSTER.constraint if CLUSTER else {}),
        slurm_extra=lambda wildcards, attempt: CLUSTER.slurm_extra(wildcards.job, attempt),
        # For other schedulers.
        host=lambda wildcards, attempt: CLUSTER.host(wildcards.job, attempt),
    params:
        work=lambda wildcards: CLUSTER.digest(wildcards.job),
    shell:
        "python -m vcsbench.run.node {wildcards.job} {output:q} 2>> {log:q}"
