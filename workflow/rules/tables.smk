# Tables, findings and advice: from the measurements, and the first two from published numbers alike.

from vcsbench.config.mix import entries_of

# From where on something is concluded (compare.decisions.Limits).
LIMITS = {
    "notable_pct": PLAN.config["notable_pct"],
    "enough_rounds": PLAN.config["thresholds"]["enough_rounds"],
}


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
        noise_class=lambda wildcards: inputs.study_file(wildcards.study).noise_class,
    script:
        "../scripts/noise.py"


rule table:
    input:
        measurements="results/measurements/{study}.csv",
        code=code_of("table"),
    output:
        csv=report(
            "results/tables/{study}/{table}.csv",
            caption="../report/table.rst",
            category="{study}",
            subcategory="Tables",
            labels={"table": "{table}", "kind": "CSV"},
        ),
        markdown="results/tables/{study}/{table}.md",
    log:
        "results/logs/table/{study}/{table}.log",
    wildcard_constraints:
        table="(?![^/]*-vs-now\\.)[a-z0-9-]+",  # those of baselines have a rule of their own
    conda:
        "../../envs/python.yaml"
    params:
        order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
        by=inputs.by_of,
        said=inputs.published_said,
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        definition=lambda wildcards: inputs.definition_of(wildcards, HOUSE.here),
        caveats=inputs.caveats_of,
        limits=LIMITS,
    script:
        "../scripts/table.py"


use rule table as published_table with:
    input:
        published=inputs.published_numbers,
        code=code_of("table"),
    output:
        csv="results/published/{study}/{table}.csv",
        markdown="results/published/{study}/{table}.md",
    log:
        "results/logs/published_table/{study}/{table}.log",


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
        given=lambda wildcards: inputs.study_file(wildcards.study).given,
        block=lambda wildcards: inputs.study_file(wildcards.study).block,
        caveats=inputs.caveats_of,
        no_choices=inputs.no_choices_of,
        limits=LIMITS,
        title=lambda wildcards: inputs.study_file(wildcards.study).title,
        questions=lambda wildcards: inputs.study_file(wildcards.study).questions,
        typed=lambda wildcards: inputs.typed_of(wildcards, HOUSE.here),
        mix=lambda wildcards: entries_of(PLAN.config["mix"], inputs.study_file(wildcards.study)),
        compared=lambda wildcards: [
            *inputs.comparing_tables(wildcards, HOUSE.here, exact=False).values()
        ],
        counted=lambda wildcards: [
            *inputs.comparing_tables(wildcards, HOUSE.here, exact=True).values()
        ],
    script:
        "../scripts/advice.py"
