# On a cluster: a job for each share of all blocks, on a node of its own, which prepares and measures there as on a
# workstation (run/share.py). Whole blocks, so that no ratio crosses nodes.


rule share:
    output:
        "results/cluster/share{share}.json",
    log:
        "results/logs/share/share{share}.log",
    wildcard_constraints:
        share="[0-9]+",
    conda:
        "../../envs/subversion.yaml"
    threads: lambda wildcards: CLUSTER.cores
    resources:
        **(CLUSTER.constraint if CLUSTER else {}),
        slurm_extra=lambda wildcards, attempt: CLUSTER.slurm_extra(wildcards.share, attempt),
        # For other schedulers.
        host=lambda wildcards, attempt: CLUSTER.host(wildcards.share, attempt),
    params:
        work=lambda wildcards: CLUSTER.digest(wildcards.share),
    shell:
        "python -m vcsbench.run.share {wildcards.share} {output:q} 2>> {log:q}"


onstart:
    PROJECT.begin()


onsuccess:
    PROJECT.end()


onerror:
    PROJECT.end(failed=True)
