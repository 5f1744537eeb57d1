# Repositories: each source is loaded once for each format, and packed where cells need that. For other systems, packing
# stands for each state that is made from the loaded repository. Then all copies are made on a storage, interleaved,
# while the repositories that they are made from are verified. A loaded repository stays on its storage, so another
# packing loads nothing.


rule load:
    output:
        "results/loaded/{repo}/{format}.json",
    log:
        "results/logs/load/{repo}/{format}.log",
    conda:
        "../../envs/subversion.yaml"
    # The formats of a repository are loaded at the same time.
    params:
        # Snakemake stores parameters: no password is among them.
        definition=lambda wildcards: PROJECT.environment.definition(wildcards.repo),
        identity=lambda wildcards: PROJECT.environment.sources[wildcards.repo].identity(),
        request=lambda wildcards: PROJECT.repositories.load_request(
            wildcards.repo, wildcards.format
        ),
        rebuild_token=lambda wildcards: PROJECT.repositories.load_token(
            wildcards.repo, wildcards.format
        ),
        # Loads share the space of the disks, and some run at the same time. Snakemake does not compare a param that
        # uses `output`.
        others=lambda wildcards, output: PROJECT.other_loads(wildcards.repo, wildcards.format),
        # By functions: Snakemake takes braces in a text for wildcards.
        scratch=lambda wildcards: PLAN.config.settings.scratch,
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/load_repository.py"


rule pack:
    input:
        "results/loaded/{repo}/{format}.json",
    output:
        "results/packed/{repo}/{format}.json",
    log:
        "results/logs/pack/{repo}/{format}.log",
    conda:
        "../../envs/subversion.yaml"
    params:
        states=lambda wildcards: PROJECT.repositories.made_states(wildcards.repo, wildcards.format),
        builds=lambda wildcards: PROJECT.git_builds(wildcards.repo, wildcards.format),
        rebuild_token=lambda wildcards: PROJECT.repositories.pack_token(
            wildcards.repo, wildcards.format
        ),
    script:
        "../scripts/pack_repository.py"


rule copy_repo:
    input:
        # The records of the loaded and of the packed repositories.
        lambda wildcards: PROJECT.repositories.sources(wildcards.storage),
    output:
        "results/repositories/{storage}.json",
    log:
        "results/logs/copy_repo/{storage}.log",
    conda:
        "../../envs/subversion.yaml"
    threads: 2
    params:
        variants=lambda wildcards: [*map(list, PROJECT.repositories.needed[wildcards.storage])],
        rebuild_token=lambda wildcards: PROJECT.repositories.copies_token(wildcards.storage),
        copies=PLAN.config.settings.copies,
        fragmentation_kib=PLAN.config.settings.fragmentation_kib,
        seed=PLAN.config.settings.seed,
        # Packed repositories stay until these storages have their copies.
        others=lambda wildcards: PROJECT.repositories.other_storages(wildcards.storage),
        storage=lambda wildcards: PLAN.config.settings.storages[wildcards.storage],
        # Snakemake does not compare a param that uses `output`. The mount of the copies is in their record.
        mounted=lambda wildcards, output: PROJECT.mounted[wildcards.storage],
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/copy_repositories.py"


# The dump file that cells load, in the scratch folder.
rule dump:
    input:
        lambda wildcards: PROJECT.repositories.dump_source(wildcards.repo),
    output:
        "results/dumps/{repo}.json",
    log:
        "results/logs/dump/{repo}.log",
    conda:
        "../../envs/subversion.yaml"
    params:
        revisions=lambda wildcards: PROJECT.repositories.dumps[wildcards.repo],
        rebuild_token=lambda wildcards: PROJECT.repositories.dump_token(wildcards.repo),
        scratch=lambda wildcards: PLAN.config.settings.scratch,
        root=lambda wildcards: str(PROJECT.root),
    script:
        "../scripts/dump_repository.py"
