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
        code=code_of("compute_statistics"),
        task="compare_measured",
        definitions=lambda wildcards: study_of(wildcards).tables(),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
        order=lambda wildcards: study_of(wildcards).order,
        by=lambda wildcards: study_of(wildcards).group_columns,
        block=lambda wildcards: study_of(wildcards).definition.block,
        limits=LIMITS,
    script:
        "../scripts/compute_statistics.py"


rule published_tables:
    input:
        numbers=lambda wildcards: study_of(wildcards).published_numbers,
    output:
        directory("results/published/{study}"),
    log:
        "results/logs/published/{study}.log",
    wildcard_constraints:
        study=one_of(inputs.study_names()),
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("compute_statistics"),
        task="compare_published",
        definitions=lambda wildcards: study_of(wildcards).tables(published=True),
        order=lambda wildcards: study_of(wildcards).order,
        by=lambda wildcards: study_of(wildcards).group_columns,
        metadata=lambda wildcards: study_of(wildcards).published_options,
        block=lambda wildcards: study_of(wildcards).definition.block,
        limits=LIMITS,
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
        published=lambda wildcards: study_of(wildcards).published_files,
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
        code=code_of("compute_statistics"),
        task="judge_findings",
        axes=lambda wildcards: study_of(wildcards).axes,
        by=lambda wildcards: study_of(wildcards).group_columns,
        metadata=lambda wildcards: study_of(wildcards).published_options,
        block=lambda wildcards: study_of(wildcards).definition.block,
        limits=LIMITS,
        findings=lambda wildcards: study_of(wildcards).findings,
        conditions=lambda wildcards: study_of(wildcards).published_conditions,
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
        code=code_of("write_report"),
        task="write_advice",
        # By name: the definitions of the tables that compare.
        compared=lambda wildcards: study_of(wildcards).comparing_tables(exact=False),
        counted=lambda wildcards: study_of(wildcards).comparing_tables(exact=True),
        order=lambda wildcards: study_of(wildcards).order,
        scenario_axes=lambda wildcards: study_of(wildcards).definition.scenario_axes,
        block=lambda wildcards: study_of(wildcards).definition.block,
        reference_commands=lambda wildcards: study_of(wildcards).reference_commands,
        limits=LIMITS,
        questions=lambda wildcards: study_of(wildcards).definition.questions,
        apply_commands=lambda wildcards: study_of(wildcards).apply_commands,
        workload=lambda wildcards: workload_of(
            PLAN.config.settings.workload, study_of(wildcards).definition
        ),
    script:
        "../scripts/write_report.py"
