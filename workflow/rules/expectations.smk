# Expectations: what a user wants to hold, judged by the code of the findings; and the target `check`.


rule expectations:
    input:
        measurements="results/measurements/{study}.csv",
        grid="results/grid/{study}.csv",
        code=inputs.code("expectations", *JUDGING, *REDUCING),
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
        axes=inputs.axes_of,
        expectations=lambda wildcards: EXPECTED.of(wildcards.study),
    script:
        "../scripts/expectations.py"


rule checks:
    input:
        verdicts=expand("results/expectations/{study}.csv", study=PLAN.config.studies),
        code=inputs.code("expectations", "findings", "frames"),
    output:
        "results/check.csv",
    log:
        "results/logs/checks.log",
    conda:
        "../../envs/python.yaml"
    params:
        elsewhere=EXPECTED.elsewhere(),
    script:
        "../scripts/checks.py"


# Ends with another code than 0 when an expectation does not hold.
rule check:
    input:
        "results/check.csv",
    log:
        "results/logs/check.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "python -m vcsbench.check {input:q} 2>&1 | tee {log:q}"
