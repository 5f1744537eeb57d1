# Reports: a self-contained page for each study, and an index of the pages in the folder.
from vcsbench.run.provenance import config_digest
from vcsbench.run.study_params import FINDINGS_FILE

# An edit of a template or of words.yaml makes the pages again.
TEMPLATES = sorted(
    str(path)
    for path in (WORKFLOW / "report").rglob("*.*")
    if path.suffix in (".jinja", ".css", ".js", ".yaml")
)


rule report:
    input:
        study="config/studies/{study}.yaml",
        definitions=FINDINGS_FILE,
        grid="results/grid/{study}.csv",
        # The page reads the contexts of these cell-rounds, too, because no table has their machine, storage, servers
        # and commands, and the records of loads and of nodes. As inputs they would start the rules that prepare and
        # measure. A new context comes with a new export, so with new measurements.
        measurements="results/measurements/{study}.csv",
        failures="results/failures/{study}.csv",
        tables="results/tables/{study}",
        history="results/history/{study}.json",
        published=lambda wildcards: PROJECT.params_of(wildcards.study).published_tables,
        findings="results/findings/{study}.csv",
        expectations="results/expectations/{study}.csv",
        advice="results/advice/{study}.json",
        account="results/budget/{study}.json",
    output:
        # The facts of the page for the index, and the params from which an imported bundle is rendered again.
        record="results/page/{study}.json",
        provenance="results/provenance/{study}.json",
        # Each chart of the page as NAME.vl.json and NAME.svg.
        charts=directory("results/charts/{study}"),
        page=report(
            "reports/{study}.html",
            caption="../report/study.rst",
            category="{study}",
            subcategory="Report",
            labels={"what": "the whole report"},
        ),
    log:
        "results/logs/report/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("write_report"),
        templates=code_digest(TEMPLATES),
        # The page cites the whole configuration, so each change of it makes the page again.
        configuration=config_digest(config),
        expectations=lambda wildcards: EXPECTATIONS.for_study(wildcards.study),
        order=lambda wildcards: PROJECT.params_of(wildcards.study).order,
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
        own_repository=lambda wildcards: PLAN.config.settings.repository or "",
        repository_notes=lambda wildcards: PROJECT.params_of(wildcards.study).repository_facts,
        server_log_notes=lambda wildcards: PROJECT.params_of(wildcards.study).server_log_facts,
    script:
        "../scripts/write_report.py"


rule index:
    input:
        reports=expand("reports/{study}.html", study=PLAN.config.studies),
        records=expand("results/page/{study}.json", study=PLAN.config.studies),
        others=other_pages,
    output:
        "reports/index.html",
    log:
        "results/logs/index.log",
    conda:
        "../../envs/python.yaml"
    params:
        code=code_of("write_index"),
        templates=code_digest(TEMPLATES),
        studies=lambda wildcards: PROJECT.studies_with_findings,
    script:
        "../scripts/write_index.py"
