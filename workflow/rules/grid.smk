# The cells of each study, with a reason for each that this machine cannot measure.


rule grid:
    output:
        "results/grid/{study}.csv",
    log:
        "results/logs/grid/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        cells=lambda wildcards: PLAN.grid_rows(wildcards.study),
    script:
        "../scripts/grid.py"
