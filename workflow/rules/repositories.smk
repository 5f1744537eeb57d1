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
        definition=lambda wildcards: PROJECT.environment.definition(wildcards.repo),
        identity=lambda wildcards: PROJECT.environment.sources[wildcards.repo].identity(),
        request=lambda wildcards: PROJECT.repositories.load_request(wildcards.repo),
        rebuild_token=lambda wildcards: PROJECT.repositories.load_token(wildcards.repo),
        # By functions: Snakemake takes braces in a text for wildcards.
        scratch=lambda wildcards: PLAN.config.settings.scratch,
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/prepare_repositories.py"


rule copies:
    input:
        loaded=lambda wildcards: expand(
            "results/loaded/{repo}.json",
            repo=PROJECT.repositories.repositories(wildcards.storage),
        ),
    output:
        "results/repositories/{storage}.json",
    log:
        "results/logs/copies/{storage}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: 2
    params:
        variants=lambda wildcards: [*map(list, PROJECT.repositories.needed[wildcards.storage])],
        rebuild_token=lambda wildcards: PROJECT.repositories.copies_token(wildcards.storage),
        copies=PLAN.config.settings.copies,
        fragmentation_kib=PLAN.config.settings.fragmentation_kib,
        seed=PLAN.config.settings.seed,
        # Loaded repositories stay until these storages have their copies.
        others=lambda wildcards: PROJECT.repositories.other_storages(wildcards.storage),
        storage=lambda wildcards: PLAN.config.settings.storages[wildcards.storage],
        # With `output`, Snakemake does not compare it. The copies' record has the mount that they were made on.
        mounted=lambda wildcards, output: PROJECT.mounted[wildcards.storage],
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/prepare_repositories.py"
