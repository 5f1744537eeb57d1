# The cells of each study, with a reason for each skipped one.


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
        "../scripts/collect_measurements.py"
