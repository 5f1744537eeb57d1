# What is measured now against saved baselines; expectations of a user's own, judged by the code of the
# findings; and the target `check`.


rule baseline_table:
    input:
        # The contexts beside the results are read along with the measurements that came from them.
        measurements="results/measurements/{study}.csv",
        saved="baselines/{baseline}/{study}.csv",
        about="baselines/{baseline}/{study}.json",
        code=code_of("baseline_table"),
    output:
        csv=report(
            "results/tables/{study}/{baseline}-vs-now.csv",
            caption="../report/table.rst",
            category="{study}",
            subcategory="Tables",
            labels={"table": "{baseline}-vs-now", "kind": "CSV"},
        ),
        markdown="results/tables/{study}/{baseline}-vs-now.md",
        notes="results/tables/{study}/{baseline}-vs-now.json",
    log:
        "results/logs/baseline_table/{study}/{baseline}.log",
    conda:
        "../../envs/python.yaml"
    params:
        order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        tables=inputs.tables_of,
        caveats=inputs.caveats_of,
        limits=LIMITS,
    script:
        "../scripts/baseline_table.py"


rule history:
    input:
        # The contexts beside the results are read along with the measurements that came from them.
        measurements="results/measurements/{study}.csv",
        baselines=lambda wildcards: EXPECTATIONS.saved_files(wildcards.study),
        code=code_of("history"),
    output:
        "results/history/{study}.json",
    log:
        "results/logs/history/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        names=lambda wildcards: EXPECTATIONS.saved(wildcards.study),
        order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        limits=LIMITS,
    script:
        "../scripts/history.py"


rule expectations:
    input:
        measurements="results/measurements/{study}.csv",
        grid="results/grid/{study}.csv",
        baselines=lambda wildcards: EXPECTATIONS.baseline_files(wildcards.study),
        code=code_of("expectations"),
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
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        limits=LIMITS,
        expectations=lambda wildcards: EXPECTATIONS.of(wildcards.study),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
    script:
        "../scripts/expectations.py"


rule checks:
    input:
        verdicts=expand("results/expectations/{study}.csv", study=PLAN.config.studies),
        code=code_of("checks"),
    output:
        "results/check.csv",
    log:
        "results/logs/checks.log",
    conda:
        "../../envs/python.yaml"
    params:
        elsewhere=EXPECTATIONS.elsewhere(),
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
        "python -m vcsbench.compare.check {input:q} 2>&1 | tee {log:q}"
