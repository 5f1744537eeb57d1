# Measurements: a row per timed run of a study; and its failures, a row per round without a result.
from vcsbench.run import inputs
from vcsbench.run.dependencies import code_of
from vcsbench.run.partial import is_partial


rule measurements:
    input:
        grid="results/grid/{study}.csv",
        # The context beside each is read, too: one job writes both.
        exports=lambda wildcards: PLAN.cell_files(wildcards.study, only_fresh=is_partial()),
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
    log:
        "results/logs/measurements/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        rounds=PLAN.config["rounds"],
        thresholds=PLAN.config["thresholds"],
        logs="results/logs/cells/{study}",
    script:
        "../scripts/measurements.py"
