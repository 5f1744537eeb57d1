# What follows from the measurements of a study, in one job that reads them once: tables, verdicts on findings and on
# the user's expectations, the history over saved baselines, the account of the time, and recommendations.


rule tables:
    input:
        grid="results/grid/{study}.csv",
        measurements="results/measurements/{study}.csv",
        failures="results/failures/{study}.csv",
        published=lambda wildcards: PROJECT.params_of(wildcards.study).published_files,
        baselines=lambda wildcards: EXPECTATIONS.saved_files(wildcards.study),
    output:
        tables=report(
            directory("results/tables/{study}"),
            patterns=["{table}.csv"],
            caption="../report/table.rst",
            category="{study}",
            subcategory="Tables",
            labels={"table": "{table}"},
        ),
        findings=report(
            "results/findings/{study}.csv",
            caption="../report/findings.rst",
            category="{study}",
            subcategory="Findings",
            labels={"what": "verdicts"},
        ),
        expectations=report(
            "results/expectations/{study}.csv",
            caption="../report/expectations.rst",
            category="{study}",
            subcategory="Findings",
            labels={"what": "expectations"},
        ),
        history="results/history/{study}.json",
        account="results/budget/{study}.json",
        advice="results/advice/{study}.json",
    log:
        "results/logs/tables/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("make_tables"),
        settings=lambda wildcards: PROJECT.params_of(wildcards.study).settings.to_param(),
        # Params for the verdicts on published findings.
        metadata=lambda wildcards: asdict(PROJECT.params_of(wildcards.study).metadata),
        findings=lambda wildcards: PROJECT.params_of(wildcards.study).findings,
        conditions=lambda wildcards: PROJECT.params_of(wildcards.study).conditions,
        # The user's expectations, the baselines to compare with, and all saved baselines.
        expectations=lambda wildcards: EXPECTATIONS.for_study(wildcards.study),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
        saved=lambda wildcards: EXPECTATIONS.saved(wildcards.study),
        # Params for the account of the time. As inputs, the files would start the rules that prepare and decide.
        minutes=lambda wildcards: PLAN.config.minutes_of(wildcards.study),
        studies=len(PLAN.config.studies),
        decisions=lambda wildcards: SAMPLING.decisions(wildcards.study),
        prepared=lambda wildcards: PROJECT.preparation_records(wildcards.study),
        # Params for the recommendations.
        scenario_axes=lambda wildcards: PROJECT.params_of(wildcards.study).scenario_axes,
        questions=lambda wildcards: PROJECT.params_of(wildcards.study).questions,
        workload=lambda wildcards: PROJECT.params_of(wildcards.study).workload,
        reference_commands=lambda wildcards: PROJECT.params_of(wildcards.study).reference_commands,
        apply_commands=lambda wildcards: PROJECT.params_of(wildcards.study).apply_commands,
        words=code_digest([str(WORKFLOW / "report" / "words.yaml")]),
    script:
        "../scripts/make_tables.py"


rule published_tables:
    input:
        numbers=lambda wildcards: PROJECT.params_of(wildcards.study).published_numbers,
    output:
        directory("results/published/{study}"),
    log:
        "results/logs/published/{study}.log",
    wildcard_constraints:
        study=one_of(PROJECT.study_names),
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("make_published_tables"),
        settings=lambda wildcards: PROJECT.params_of(wildcards.study).published_settings.to_param(),
        metadata=lambda wildcards: asdict(PROJECT.params_of(wildcards.study).metadata),
    script:
        "../scripts/make_published_tables.py"


rule published:
    input:
        # A function is evaluated only if this is the target.
        lambda wildcards: [
            folder
            for study in PROJECT.study_names
            for folder in PROJECT.params_of(study).published_tables
        ],
