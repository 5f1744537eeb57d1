# Where rounds go in a run that has minutes: after each pass it is decided what the next one measures.
from vcsbench.run import inputs
from vcsbench.run.dependencies import code_of
from vcsbench.run.passes import Walk

WALK = Walk(HOUSE)


# The decision on a pass, from all that the passes before it measured. With a fixed number of rounds nobody asks
# for one. What it depends on is looked at for the last decision only: those before it are kept (plan/passes.py).
checkpoint decide:
    input:
        grid="results/grid/{study}.csv",
        exports=lambda wildcards: WALK.before(wildcards.study, int(wildcards.number)),
        # How long it took. Where copies are made again, no cell is; the decision is, and so all that is behind it.
        prepared=lambda wildcards: HOUSE.prepared(wildcards.study),
        code=code_of("decide"),
    output:
        "results/budget/{study}/pass{number}.json",
    log:
        "results/logs/decide/{study}/pass{number}.log",
    wildcard_constraints:
        number="[0-9]+",
    conda:
        "../../envs/python.yaml"
    params:
        minutes=lambda wildcards: PLAN.config.minutes_of(wildcards.study),
        rounds=lambda wildcards: PLAN.rounds_by_cell(wildcards.study, int(wildcards.number) - 1),
        blocks=lambda wildcards: WALK.rounds_before(wildcards.study, int(wildcards.number)),
        of=lambda wildcards: WALK.histories(wildcards.study),
        terms=lambda wildcards: inputs.terms_of(wildcards, HOUSE.here, LIMITS),
        findings=inputs.findings_of,
        by=inputs.by_of,
        thresholds=PLAN.config["thresholds"],
        logs="results/logs/cells/{study}",
    script:
        "../scripts/decide.py"


# What the minutes went to, and what more of them would answer; of fixed rounds, too.
rule account:
    input:
        measurements="results/measurements/{study}.csv",
        tables=lambda wildcards: inputs.csv_of(
            wildcards.study, inputs.comparing_tables(wildcards, HOUSE.here, exact=False)
        ),
        code=code_of("account"),
    output:
        "results/budget/{study}.json",
    log:
        "results/logs/account/{study}.log",
    conda:
        "../../envs/python.yaml"
    params:
        minutes=PLAN.config.minutes,
        studies=len(PLAN.config.studies),
        decisions=lambda wildcards: WALK.decisions(wildcards.study),
        terms=lambda wildcards: inputs.terms_of(wildcards, HOUSE.here, LIMITS),
        prepared=lambda wildcards: HOUSE.prepared(wildcards.study),
    script:
        "../scripts/account.py"
