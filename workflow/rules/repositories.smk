# Repositories: each source is loaded once, in every format side by side, and its packed variants
# are made; then all copies are made on the storage, interleaved.

# Not in a dry run and not in a job's own process: records of copies that are gone are removed.
if workflow.is_main_process and not workflow.dryrun:
    for sentence in PLAN.forget_vanished():
        print(sentence, file=sys.stderr)


rule load:
    output:
        "results/loaded/{repo}.json",
    log:
        "results/logs/load/{repo}.log",
    params:
        definition=lambda wildcards: PLAN.config.repositories[wildcards.repo],
        identity=lambda wildcards: PLAN.sources[wildcards.repo].identity(),
        variants=lambda wildcards: PLAN.variants_of(wildcards.repo),
        copies=PLAN.config["copies"],
        scratch=PLAN.config["scratch"],
        storage=lambda wildcards: PLAN.config["storages"][PLAN.config["storage"]],
        root=str(ROOT),
    threads: 2
    conda:
        "../../envs/subversion.yaml"
    script:
        "../scripts/load.py"


rule copies:
    input:
        loaded=lambda wildcards: expand(
            "results/loaded/{repo}.json", repo=PLAN.repositories(wildcards.storage)
        ),
    output:
        "results/repositories/{storage}.json",
    log:
        "results/logs/copies/{storage}.log",
    params:
        variants=lambda wildcards: PLAN.variant_rows(wildcards.storage),
        copies=PLAN.config["copies"],
        spacer_kib=PLAN.config["spacer_kib"],
        seed=PLAN.config["seed"],
        storage=lambda wildcards: PLAN.config["storages"][wildcards.storage],
        root=str(ROOT),
    conda:
        "../../envs/subversion.yaml"
    script:
        "../scripts/copies.py"
