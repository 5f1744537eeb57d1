# Repositories: each source is loaded once, in every format side by side, and its packed variants
# are made; then all copies are made on the storage, interleaved, while what was loaded is verified.


rule load:
    output:
        "results/loaded/{repo}.json",
    log:
        "results/logs/load/{repo}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: 2
    params:
        # Snakemake stores parameters: no password is among them.
        definition=lambda wildcards: HOUSE.here.definition(wildcards.repo),
        identity=lambda wildcards: HOUSE.here.sources[wildcards.repo].identity(),
        variants=lambda wildcards: HOUSE.shelf.formats(wildcards.repo),
        # Another moment where there is nothing left that copies could be made from.
        made=lambda wildcards: HOUSE.shelf.loaded(wildcards.repo),
        # How many revisions a dump file of it is to have, if cells read one.
        dump=lambda wildcards: HOUSE.shelf.dumps.get(wildcards.repo),
        copies=PLAN.config["copies"],
        scratch=lambda wildcards: PLAN.config["scratch"],
        # By functions: Snakemake takes braces in a text for wildcards. All that get copies of it.
        storages=lambda wildcards: HOUSE.shelf.takers(wildcards.repo),
        root=lambda wildcards: str(ROOT),
    script:
        "../scripts/load.py"


rule copies:
    input:
        loaded=lambda wildcards: expand(
            "results/loaded/{repo}.json", repo=HOUSE.shelf.repositories(wildcards.storage)
        ),
    output:
        "results/repositories/{storage}.json",
    log:
        "results/logs/copies/{storage}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: 2
    params:
        variants=lambda wildcards: HOUSE.shelf.rows(wildcards.storage),
        # Another moment where copies have vanished or were changed: they are made again.
        made=lambda wildcards: HOUSE.shelf.made(wildcards.storage),
        copies=PLAN.config["copies"],
        fragmentation_kib=PLAN.config["fragmentation_kib"],
        seed=PLAN.config["seed"],
        # What was loaded is kept for these.
        others=lambda wildcards: HOUSE.shelf.others(wildcards.storage),
        storage=lambda wildcards: PLAN.config["storages"][wildcards.storage],
        root=lambda wildcards: str(ROOT),
    script:
        "../scripts/copies.py"
