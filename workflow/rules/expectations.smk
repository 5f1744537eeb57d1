# The history over saved baselines, the verdicts on the user's expectations, and the target `check`.


rule history:
    input:
        measurements="results/measurements/{study}.csv",
        baselines=lambda wildcards: EXPECTATIONS.saved_files(wildcards.study),
    output:
        "results/history/{study}.json",
    log:
        "results/logs/history/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("order", "block", "limits"),
        code=code_of("compute_statistics"),
        names=lambda wildcards: EXPECTATIONS.saved(wildcards.study),
    script:
        "../scripts/compute_statistics.py"


rule expectations:
    input:
        measurements="results/measurements/{study}.csv",
        grid="results/grid/{study}.csv",
        baselines=lambda wildcards: EXPECTATIONS.baseline_files(wildcards.study),
    output:
        report(
            "results/expectations/{study}.csv",
            caption="../report/expectations.rst",
            category="{study}",
            subcategory="Findings",
            labels={"what": "expectations"},
        ),
    log:
        "results/logs/expectations/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("axes", "block", "limits"),
        code=code_of("compute_statistics"),
        expectations=lambda wildcards: EXPECTATIONS.for_study(wildcards.study),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
    script:
        "../scripts/compute_statistics.py"


rule checks:
    input:
        verdicts=expand("results/expectations/{study}.csv", study=PLAN.config.studies),
    output:
        "results/check.csv",
    log:
        "results/logs/checks.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("compute_statistics"),
        of_other_studies=EXPECTATIONS.of_other_studies(),
    script:
        "../scripts/compute_statistics.py"


# Fails if an expectation does not hold.
rule check:
    input:
        "results/check.csv",
    log:
        "results/logs/check.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "python -m vcsbench.statistics.check {input:q} 2>&1 | tee {log:q}"
