# Measurements: a row for each timed run of a study; its failures, a row for each round without a result; and the
# provenance of both. The time that a run took, and what more time would answer.


rule measurements:
    input:
        grid="results/grid/{study}.csv",
        # The context next to each is read too: one job writes both.
        exports=exports,
        shares=CLUSTER.records() if CLUSTER else [],
        calls=lambda wildcards: SAMPLING.calls(wildcards.study),
        decision=lambda wildcards: SAMPLING.last(wildcards.study),
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
        code=code_of("measurements"),
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study),
        # On a cluster, nodes measured these.
        of_nodes=lambda wildcards, input: PLAN.cell_files(wildcards.study) if CLUSTER else [],
        digests=lambda wildcards, input: {
            cell.path: PLAN.digest(wildcards.study, cell.path)
            for cell in PLAN.measured(wildcards.study)
        },
        counted=lambda wildcards: PLAN.counted(wildcards.study),
        thresholds=PLAN.config.thresholds,
        logs="results/logs/cells/{study}",
    script:
        "../scripts/measurements.py"


# Measures all, and makes no table and no report.
rule measured:
    input:
        raw_data,
        expand(
            "results/{kind}/{study}.csv",
            kind=("measurements", "failures"),
            study=PLAN.config.studies,
        ),


rule account:
    input:
        measurements="results/measurements/{study}.csv",
        tables="results/tables/{study}",
    output:
        "results/budget/{study}.json",
    log:
        "results/logs/account/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("account"),
        tables=lambda wildcards: [*comparing_tables(wildcards, exact=False)],
        minutes=PLAN.config.minutes,
        studies=len(PLAN.config.studies),
        decisions=lambda wildcards: SAMPLING.decisions(wildcards.study),
        terms=lambda wildcards: inputs.terms_of(wildcards, PROJECT.here, LIMITS),
        prepared=lambda wildcards: PROJECT.prepared(wildcards.study),
    script:
        "../scripts/account.py"
