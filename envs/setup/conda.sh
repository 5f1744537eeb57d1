# shellcheck shell=bash disable=SC2154 # sourced by envs/setup.sh, which sets root
# Everything in .conda, where there is no apt or no root.

find_conda() {
    local tool
    for tool in micromamba mamba conda pixi; do
        if type -P "$tool" >/dev/null; then
            printf '%s\n' "$tool"
            return
        fi
    done
    return 1
}

# Makes the environment of envs/workflow.yaml in .conda with TOOL.
make_conda_environment() {
    local tool=$1
    say "creating .conda with $tool from envs/workflow.yaml"
    rm -rf .conda
    # Strict: what conda-forge has is never taken from bioconda. pixi is strict anyway.
    export CONDA_CHANNEL_PRIORITY=strict MAMBA_CHANNEL_PRIORITY=strict
    export CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true
    case $tool in
    micromamba) fetch_conda micromamba create --prefix "$root/.conda" --file envs/workflow.yaml ;;
    mamba | conda) fetch_conda "$tool" env create --prefix "$root/.conda" --file envs/workflow.yaml ;;
    pixi) make_pixi_environment ;;
    esac
}

# pixi has environments only inside a workspace: it gets one, and .conda is a link to its environment.
make_pixi_environment() {
    local workspace=.tools/pixi
    rm -rf "$workspace"
    mkdir -p "$workspace"
    # pixi has no default channels, and would take `nodefaults` for the name of one.
    grep -v nodefaults envs/workflow.yaml >"$workspace/workflow.yaml"
    fetch_conda pixi init --import "$workspace/workflow.yaml" "$workspace"
    fetch_conda pixi install --manifest-path "$workspace/pixi.toml"
    ln -s "$workspace/.pixi/envs/default" .conda
}

fetch_conda() {
    local output
    if ! output=$("$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 12 | sed 's/^/    /' >&2
        die "$1 could not make the environment of envs/workflow.yaml: the lines above say why." \
            "Its channels are conda-forge and bioconda."
    fi
}
