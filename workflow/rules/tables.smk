# Tables, findings and advice: from the measurements, and the first two from published numbers alike.


# All tables of a study in one job: to start a Python that imports pandas takes longer than most of them.
rule tables:
    input:
        numbers="results/measurements/{study}.csv",
        baselines=lambda wildcards: EXPECTATIONS.baseline_files(wildcards.study),
    output:
        report(
            directory("results/tables/{study}"),
            patterns=["{table}.csv"],
            caption="../report/table.rst",
            category="{study}",
            subcategory="Tables",
            labels={"table": "{table}"},
        ),
    log:
        "results/logs/tables/{study}.log",
    # More jobs wait for it than for findings.
    priority: 1
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("order", "by", "block", "limits"),
        code=code_of("compute_statistics"),
        definitions=of_study("tables"),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
    script:
        "../scripts/compute_statistics.py"


rule published_tables:
    input:
        numbers=of_study("published_numbers"),
    output:
        directory("results/published/{study}"),
    log:
        "results/logs/published/{study}.log",
    wildcard_constraints:
        study=one_of(inputs.study_names()),
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("order", "by", "metadata", "block", "limits"),
        code=code_of("compute_statistics"),
        definitions=of_study("tables_of_published"),
    script:
        "../scripts/compute_statistics.py"


rule published:
    input:
        # A function is evaluated only if this is the target.
        lambda wildcards: [
            folder
            for study in inputs.study_names()
            for folder in PROJECT.params_of(study).published_tables
        ],


rule findings:
    input:
        # Either may be missing: a study is not measured here, or nothing of it was published.
        published=of_study("published_files"),
        measurements=branch(is_measured, then="results/measurements/{study}.csv"),
        grid=branch(is_measured, then="results/grid/{study}.csv"),
    output:
        report(
            "results/findings/{study}.csv",
            caption="../report/findings.rst",
            category="{study}",
            subcategory="Findings",
            labels={"what": "verdicts"},
        ),
    log:
        "results/logs/findings/{study}.log",
    wildcard_constraints:
        study=one_of(inputs.study_names()),
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("axes", "by", "metadata", "block", "limits", "findings", "conditions"),
        code=code_of("compute_statistics"),
    script:
        "../scripts/compute_statistics.py"


rule advice:
    input:
        measurements="results/measurements/{study}.csv",
        tables="results/tables/{study}",
        grid="results/grid/{study}.csv",
        failures="results/failures/{study}.csv",
    output:
        "results/advice/{study}.json",
    log:
        "results/logs/advice/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        **params_of_study("order", "scenario_axes", "block", "limits", "questions", "workload"),
        **params_of_study("reference_commands", "apply_commands"),
        code=code_of("write_report"),
        tables=of_study("comparing_tables"),
    script:
        "../scripts/write_report.py"
