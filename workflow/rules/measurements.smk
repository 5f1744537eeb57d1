# Measurements (a row per timed run), and failures (a row per round without a result).


rule measurements:
    input:
        grid="results/grid/{study}.csv",
        # The context next to each export is read too. One job writes both.
        exports=exports,
        node_jobs=CLUSTER.records() if CLUSTER else [],
        traces=lambda wildcards: SAMPLING.traces(wildcards.study),
        decision=lambda wildcards: SAMPLING.next_decision(wildcards.study),
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
    log:
        "results/logs/measurements/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("collect_measurements"),
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study),
        # As inputs, the results of nodes would start the rule `cell` here.
        of_nodes=lambda wildcards, input: SAMPLING.exports_of_nodes(wildcards.study),
        traces_of_nodes=lambda wildcards: SAMPLING.traces_of_nodes(wildcards.study),
        digests=lambda wildcards, input: {
            cell.path: PLAN.digest(wildcards.study, cell.path)
            for cell in PLAN.measured(wildcards.study)
        },
        traced=lambda wildcards: PLAN.traced(wildcards.study),
    script:
        "../scripts/collect_measurements.py"


# Measure all studies without tables and reports.
rule measured:
    input:
        raw_data,
        expand(
            "results/{kind}/{study}.csv",
            kind=("measurements", "failures"),
            study=PLAN.config.studies,
        ),
