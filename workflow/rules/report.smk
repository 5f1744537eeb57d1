# The reports: a page per study, with all that it needs inside, and an index of those in the folder.

from vcsbench.config import glossary

# What the pages are made from: an edit of it makes them anew, and measures nothing.
LOOKS = sorted(
    str(path)
    for path in Path("workflow/report").rglob("*.*")
    if path.suffix in (".jinja", ".css", ".js")
)


rule report:
    input:
        study="config/studies/{study}.yaml",
        definitions=inputs.FINDINGS,
        words=str(glossary.FILE),
        grid="results/grid/{study}.csv",
        # The contexts beside the results are read along with the measurements that came from them.
        measurements="results/measurements/{study}.csv",
        failures="results/failures/{study}.csv",
        provenance="results/provenance/{study}.json",
        tables=lambda wildcards: inputs.measured_tables(wildcards.study),
        baselines=lambda wildcards: EXPECTATIONS.baseline_tables(wildcards.study),
        history=lambda wildcards: EXPECTATIONS.history(wildcards.study),
        published=lambda wildcards: inputs.published_tables(wildcards.study),
        findings="results/findings/{study}.csv",
        noise="results/noise/{study}.csv",
        expectations="results/expectations/{study}.csv",
        advice="results/advice/{study}.json",
        account="results/budget/{study}.json",
        ceiling=lambda wildcards: WALK.ceiling(wildcards.study),
        code=[*code_of("report"), *LOOKS],
    output:
        # What the page is made with beside the files above: by that another vcsbench makes it again.
        made_with="results/page/{study}.json",
        page=report(
            "reports/{study}.html",
            caption="../report/study.rst",
            category="{study}",
            subcategory="Report",
            labels={"what": "the whole report"},
        ),
    log:
        "results/logs/report/{study}.log",
    wildcard_constraints:
        study="(?!index\\.)[a-z0-9-]+",
    conda:
        "../../envs/python.yaml"
    params:
        expectations=lambda wildcards: EXPECTATIONS.of(wildcards.study),
        order=lambda wildcards: inputs.order_of(wildcards, HOUSE.here),
        baselines=lambda wildcards: EXPECTATIONS.baselines(wildcards.study),
        own=lambda wildcards: PLAN.config["repository"] or "",
        found=lambda wildcards: inputs.found_of(wildcards, HOUSE.here),
    script:
        "../scripts/report.py"


rule index:
    input:
        reports=expand("reports/{study}.html", study=PLAN.config.studies),
        code=code_of("index"),
        looks=["workflow/report/index.html.jinja", "workflow/report/style.css"],
    output:
        "reports/index.html",
    log:
        "results/logs/index.log",
    conda:
        "../../envs/python.yaml"
    params:
        studies=inputs.studies_with_findings(),
    script:
        "../scripts/index.py"
