# Repositories: each source is loaded once, in every format, and packed. Then all copies are made on the storage,
# interleaved, while the loaded repositories are verified.


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
        definition=lambda wildcards: PROJECT.here.definition(wildcards.repo),
        identity=lambda wildcards: PROJECT.here.sources[wildcards.repo].identity(),
        variants=lambda wildcards: PROJECT.shelf.formats(wildcards.repo),
        # Changes where nothing is left that copies could be made from.
        made=lambda wildcards: PROJECT.shelf.loaded(wildcards.repo),
        # The number of revisions in its dump file, if cells read one.
        dump=lambda wildcards: PROJECT.shelf.dumps.get(wildcards.repo),
        copies=PLAN.config.settings.copies,
        scratch=lambda wildcards: PLAN.config.settings.scratch,
        # By functions: Snakemake takes braces in a text for wildcards. All that get copies of it.
        storages=lambda wildcards: PROJECT.shelf.takers(wildcards.repo),
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/load.py"


rule copies:
    input:
        loaded=lambda wildcards: expand(
            "results/loaded/{repo}.json", repo=PROJECT.shelf.repositories(wildcards.storage)
        ),
    output:
        "results/repositories/{storage}.json",
    log:
        "results/logs/copies/{storage}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: 2
    params:
        variants=lambda wildcards: PROJECT.shelf.rows(wildcards.storage),
        # Changes where copies are missing or damaged: they are made again.
        made=lambda wildcards: PROJECT.shelf.made(wildcards.storage),
        copies=PLAN.config.settings.copies,
        fragmentation_kib=PLAN.config.settings.fragmentation_kib,
        seed=PLAN.config.settings.seed,
        # Loaded repositories are kept for these storages.
        others=lambda wildcards: PROJECT.shelf.others(wildcards.storage),
        storage=lambda wildcards: PLAN.config.settings.storages[wildcards.storage],
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/copies.py"
