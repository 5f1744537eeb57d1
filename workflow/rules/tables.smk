# Tables, findings and advice: from the measurements, and the first two from published numbers alike.
from functools import cache

from vcsbench.findings import read_findings
from vcsbench.study import load_study

FINDINGS = "config/published/findings.yaml"
REDUCING = ["reduction", "intervals", "flags", "frames"]
TABULATING = ["tables", *REDUCING, "markdown", "report/grids", "report/marks", "report/words"]
ADVISING = ["advice/recommend", "advice/blocks", "advice/sentences"]


@cache
def study_file(name):
    """A study as its file has it, measured here or not."""
    try:
        return load_study(f"config/studies/{name}.yaml")
    except UserError as error:
        raise WorkflowError(str(error)) from None


def definition_of(wildcards):
    """A table's definition: a change of it reruns that table alone."""
    tables = study_file(wildcards.study).tables
    if wildcards.table not in tables:
        raise WorkflowError(
            f"config/studies/{wildcards.study}.yaml: has no table `{wildcards.table}`; "
            f"it has {', '.join(tables)}"
        )
    return tables[wildcards.table]


def axes_of(wildcards):
    """The axes of a study with their values."""
    return study_file(wildcards.study).axes


def caveats_of(wildcards):
    """The caveat of each command of a study that has one."""
    commands = study_file(wildcards.study).commands
    return {name: c["caveat"] for name, c in commands.items() if "caveat" in c}


def findings_of(wildcards):
    """The findings of a study: a change of them reruns nothing of another study."""
    try:
        return read_findings(FINDINGS, wildcards.study, list(axes_of(wildcards)))
    except UserError as error:
        raise WorkflowError(str(error)) from None


def published_numbers(wildcards):
    """The file of a study's published numbers."""
    published = study_file(wildcards.study).published
    if not published:
        raise WorkflowError(
            f"config/studies/{wildcards.study}.yaml: has no `published` numbers to make tables of"
        )
    return f"config/published/{published['numbers']}"


def published_tables(study):
    """The files of all tables that a study's published numbers make."""
    definitions = study_file(study).tables if study_file(study).published else {}
    return expand(
        "results/published/{study}/{table}.{ending}",
        study=study,
        table=[name for name, table in definitions.items() if table.get("published", True)],
        ending=["csv", "md"],
    )


rule table:
    input:
        measurements="results/measurements/{study}.csv",
        code=code(*TABULATING),
    output:
        csv="results/tables/{study}/{table}.csv",
        markdown="results/tables/{study}/{table}.md",
    log:
        "results/logs/table/{study}/{table}.log",
    conda:
        "../../envs/python.yaml"
    params:
        axes=axes_of,
        definition=definition_of,
        caveats=caveats_of,
    script:
        "../scripts/table.py"


use rule table as published_table with:
    input:
        published=published_numbers,
        code=code("published", *TABULATING),
    output:
        csv="results/published/{study}/{table}.csv",
        markdown="results/published/{study}/{table}.md",
    log:
        "results/logs/published_table/{study}/{table}.log",


rule published:
    input:
        lambda wildcards: [
            file
            for study in sorted(Path("config/studies").glob("*.yaml"))
            for file in published_tables(study.stem)
        ],


rule findings:
    input:
        # Either may be missing: a study is not measured here, or nothing of it was published.
        published=lambda wildcards: (
            [published_numbers(wildcards)] if study_file(wildcards.study).published else []
        ),
        measurements=lambda wildcards: (
            [f"results/measurements/{wildcards.study}.csv"]
            if wildcards.study in PLAN.config.studies
            else []
        ),
        code=code("findings", "published", *REDUCING),
    output:
        "results/findings/{study}.csv",
    log:
        "results/logs/findings/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        axes=axes_of,
        findings=findings_of,
    script:
        "../scripts/findings.py"


rule advice:
    input:
        measurements="results/measurements/{study}.csv",
        code=code(*ADVISING, *REDUCING, "report/words"),
    output:
        "results/advice/{study}.json",
    log:
        "results/logs/advice/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        axes=axes_of,
        caveats=caveats_of,
    script:
        "../scripts/advice.py"
