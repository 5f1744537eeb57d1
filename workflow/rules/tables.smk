# Tables, findings and advice: from the measurements, and the first two from published numbers alike.

from vcsbench.config.mix import entries_of

LIMITS = PLAN.config.limits


rule noise:
    input:
        measurements="results/measurements/{study}.csv",
        code=code_of("noise"),
    output:
        report(
            "results/noise/{study}.csv",
            caption="../report/noise.rst",
            category="{study}",
            subcategory="Data",
            labels={"what": "noise"},
        ),
    log:
        "results/logs/noise/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        axes=inputs.axes_of,
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        variance_group=lambda wildcards: inputs.study_file(wildcards.study).variance_group,
    script:
        "../scripts/noise.py"


# All tables of a study in one job: they share what their runs are reduced to, and a Python that imports pandas
# takes longer than most of them. So each study has two rules, of what is measured and of what was published.
for NAME, (STUDY, PUBLISHED) in inputs.tables_by_rule().items():
    TABLES = inputs.made_tables(STUDY, PUBLISHED)

    rule:
        name:
            NAME
        input:
            numbers=inputs.published_numbers if PUBLISHED else ["results/measurements/{study}.csv"],
            code=code_of("tables"),
        output:
            csv=[
                # What was published is in the report beside what is measured.
                (
                    file
                    if PUBLISHED
                    else report(
                        file,
                        caption="../report/table.rst",
                        category="{study}",
                        subcategory="Tables",
                        labels={"table": Path(file).stem, "kind": "CSV"},
                    )
                )
                for file in inputs.csv_of("{study}", TABLES, PUBLISHED)
            ],
            markdown=inputs.markdown_of("{study}", TABLES, PUBLISHED),
        log:
            f"results/logs/{'published' if PUBLISHED else 'tables'}/{{study}}.log",
        wildcard_constraints:
            study=STUDY,
        # More waits for these than for findings and noise.
        priority: 0 if PUBLISHED else 1
        conda:
            "../../envs/python.yaml"
        params:
            published=PUBLISHED,
            definitions=inputs.definitions_of(TABLES, HOUSE.here),
            order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
            by=inputs.by_of,
            said=inputs.published_said,
            block=lambda wildcards: inputs.study_file(wildcards.study).block,
            caveats=inputs.caveats_of,
            limits=LIMITS,
        script:
            "../scripts/tables.py"


rule published:
    input:
        [file for study in inputs.studies() for file in inputs.published_tables(study)],


rule findings:
    input:
        # Either may be missing: a study is not measured here, or nothing of it was published.
        published=lambda wildcards: (
            inputs.published_numbers(wildcards)
            if inputs.study_file(wildcards.study).published
            else []
        ),
        measurements=inputs.if_measured("results/measurements/{study}.csv", PLAN.config.studies),
        grid=inputs.if_measured("results/grid/{study}.csv", PLAN.config.studies),
        code=code_of("findings"),
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
        axes=inputs.axes_of,
        by=inputs.by_of,
        said=inputs.published_said,
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        limits=LIMITS,
        findings=inputs.findings_of,
        published_scale=inputs.published_scale_of,
    script:
        "../scripts/findings.py"


rule advice:
    input:
        measurements="results/measurements/{study}.csv",
        tables=inputs.advised_tables,
        code=code_of("advice"),
        counted=lambda wildcards: inputs.csv_of(
            wildcards.study, inputs.comparing_tables(wildcards, HOUSE.here, exact=True)
        ),
        compared=lambda wildcards: inputs.csv_of(
            wildcards.study, inputs.comparing_tables(wildcards, HOUSE.here, exact=False)
        ),
    output:
        data="results/advice/{study}.json",
        markdown="results/advice/{study}.md",
    log:
        "results/logs/advice/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
        given=lambda wildcards: inputs.study_file(wildcards.study).scenario_axes,
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        caveats=inputs.caveats_of,
        no_choices=inputs.no_choices_of,
        limits=LIMITS,
        title=lambda wildcards: inputs.study_file(wildcards.study).title,
        questions=lambda wildcards: inputs.study_file(wildcards.study).questions,
        typed=lambda wildcards: inputs.typed_of(wildcards, HOUSE.here),
        mix=lambda wildcards: entries_of(PLAN.config["workload"], inputs.study_file(wildcards.study)),
        compared=lambda wildcards: [
            *inputs.comparing_tables(wildcards, HOUSE.here, exact=False).values()
        ],
        counted=lambda wildcards: [
            *inputs.comparing_tables(wildcards, HOUSE.here, exact=True).values()
        ],
    script:
        "../scripts/advice.py"
