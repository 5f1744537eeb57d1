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
        code=code_of("make_tables"),
        task="compare_measured",
        definitions=lambda wildcards: inputs.table_definitions(
            wildcards, PROJECT.environment, False
        ),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
        order=order_of,
        by=inputs.group_columns,
        block=lambda wildcards: study_of(wildcards).block,
        limits=LIMITS,
    script:
        "../scripts/make_tables.py"


rule published_tables:
    input:
        numbers=inputs.published_numbers,
    output:
        directory("results/published/{study}"),
    log:
        "results/logs/published/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("make_tables"),
        task="compare_published",
        definitions=lambda wildcards: inputs.table_definitions(wildcards, PROJECT.environment, True),
        order=order_of,
        by=inputs.group_columns,
        metadata=inputs.published_options,
        block=lambda wildcards: study_of(wildcards).block,
        limits=LIMITS,
    script:
        "../scripts/make_tables.py"


rule published:
    input:
        [folder for study in inputs.studies() for folder in inputs.published_tables(study)],


rule findings:
    input:
        # Either may be missing: a study is not measured here, or nothing of it was published.
        published=lambda wildcards: (
            inputs.published_numbers(wildcards) if study_of(wildcards).published else []
        ),
        measurements=inputs.optional_input("results/measurements/{study}.csv", PLAN.config.studies),
        grid=inputs.optional_input("results/grid/{study}.csv", PLAN.config.studies),
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
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("judge_findings"),
        task="judge_findings",
        axes=inputs.axes,
        by=inputs.group_columns,
        metadata=inputs.published_options,
        block=lambda wildcards: study_of(wildcards).block,
        limits=LIMITS,
        findings=inputs.findings,
        conditions=inputs.published_conditions,
    script:
        "../scripts/judge_findings.py"


rule advice:
    input:
        measurements="results/measurements/{study}.csv",
        tables="results/tables/{study}",
        grid="results/grid/{study}.csv",
        failures="results/failures/{study}.csv",
    output:
        data="results/advice/{study}.json",
        markdown="results/advice/{study}.md",
    log:
        "results/logs/advice/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("write_advice"),
        # By name: the definitions of the tables that compare.
        compared=lambda wildcards: comparing_tables(wildcards, exact=False),
        counted=lambda wildcards: comparing_tables(wildcards, exact=True),
        order=order_of,
        scenario_axes=lambda wildcards: study_of(wildcards).scenario_axes,
        block=lambda wildcards: study_of(wildcards).block,
        reference_commands=inputs.reference_commands,
        limits=LIMITS,
        title=lambda wildcards: study_of(wildcards).title,
        questions=lambda wildcards: study_of(wildcards).questions,
        apply_commands=lambda wildcards: inputs.apply_commands(wildcards, PROJECT.environment),
        workload=lambda wildcards: workload_of(PLAN.config.settings.workload, study_of(wildcards)),
    script:
        "../scripts/write_advice.py"
