# Measurements: a row per timed run of a study; its failures, a row per round without a result; and what put
# them together.


rule measurements:
    input:
        grid="results/grid/{study}.csv",
        # The context beside each is read, too: one job writes both.
        exports=lambda wildcards: WALK.exports(wildcards.study, checkpoints.decide.get),
        calls=lambda wildcards: WALK.calls(wildcards.study),
        decision=lambda wildcards: WALK.last(wildcards.study),
        code=code_of("measurements"),
    output:
        measurements=report(
            "results/measurements/{study}.csv",
            caption="../report/measurements.rst",
            category="{study}",
            subcategory="Data",
            labels={"what": "every timed run"},
        ),
        failures="results/failures/{study}.csv",
        fixed_cost="results/fixed-cost/{study}.csv",
        provenance="results/provenance/{study}.json",
    log:
        "results/logs/measurements/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study),
        counted=lambda wildcards: PLAN.counted(wildcards.study),
        thresholds=PLAN.config["thresholds"],
        logs="results/logs/cells/{study}",
    script:
        "../scripts/measurements.py"
