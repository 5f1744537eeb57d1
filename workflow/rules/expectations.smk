# The verdicts on the user's expectations in one file, and the target `check`.


rule checks:
    input:
        verdicts=expand("results/expectations/{study}.csv", study=PLAN.config.studies),
    output:
        csv="results/check.csv",
        junit="results/check.junit.xml",
        markdown="results/check.md",
    log:
        "results/logs/checks.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("join_checks"),
        of_other_studies=EXPECTATIONS.of_other_studies(),
    script:
        "../scripts/join_checks.py"


# Fails if an expectation does not hold. It has no output, because Snakemake removes those of a failed job.
rule check:
    input:
        rules.checks.output.csv,
    log:
        "results/logs/check.log",
    conda:
        "../../envs/python.yaml"
    shell:
        "python -m vcsbench.statistics.check {input:q} 2>&1 | tee {log:q}"
