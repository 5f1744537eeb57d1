# The cells of each study, with a reason for each skipped one.


rule grid:
    output:
        "results/grid/{study}.csv",
    log:
        "results/logs/grid/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("write_grid"),
        cells=lambda wildcards: PLAN.grid_rows(wildcards.study),
    script:
        "../scripts/write_grid.py"
