# Builds of Subversion from conda packages, an environment per file.


rule build:
    output:
        folder=directory("results/builds/{environment}"),
        record="results/builds/{environment}.sha256",
    log:
        "results/logs/builds/{environment}.log",
    conda:
        "../../envs/python.yaml"
    params:
        file=lambda wildcards: PROJECT.conda_environments[wildcards.environment],
    shell:
        "bash envs/make_conda_build.sh {params.file:q} {output.folder:q} {output.record:q} > {log:q} 2>&1"
