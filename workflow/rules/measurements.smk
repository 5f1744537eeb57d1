# Measurements: a row per timed run of a study; and its failures, a row per round without a result.


def code(*modules):
    """The files of modules that a rule computes with: Snakemake does not see what a script imports."""
    return [f"workflow/vcsbench/{module}.py" for module in modules]


rule measurements:
    input:
        grid="results/grid/{study}.csv",
        # The context beside each is read, too: one job writes both.
        exports=lambda wildcards: PLAN.cell_files(wildcards.study),
        code=code("measurements", "hyperfine_export", "flags", "frames"),
    output:
        measurements="results/measurements/{study}.csv",
        failures="results/failures/{study}.csv",
    log:
        "results/logs/measurements/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        rounds=PLAN.config["rounds"],
        logs="results/logs/cells/{study}",
    script:
        "../scripts/measurements.py"
