# shellcheck shell=bash # sourced by envs/setup.sh and envs/make_conda_build.sh, which define say and die
# Environments of conda packages: .conda (without apt or root), and builds.

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

# Makes the environment of FILE in FOLDER (absolute) with TOOL; pixi's workspace is WORKSPACE.
# usage: make_conda_environment TOOL FILE FOLDER WORKSPACE
make_conda_environment() {
    local tool=$1 file=$2 folder=$3 workspace=$4
    say "creating ${folder#"$PWD/"} with $tool from $file"
    rm -rf "$folder" "$workspace"
    # Strict: a package of conda-forge is never taken from bioconda. pixi is always strict.
    export CONDA_CHANNEL_PRIORITY=strict MAMBA_CHANNEL_PRIORITY=strict
    export CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true
    case $tool in
    micromamba) fetch_conda "$file" micromamba create --prefix "$folder" --file "$file" ;;
    mamba | conda) fetch_conda "$file" "$tool" env create --prefix "$folder" --file "$file" ;;
    pixi) make_pixi_environment "$file" "$folder" "$workspace" ;;
    esac
}

# pixi has environments only inside a workspace. FOLDER is a link to the workspace's environment.
make_pixi_environment() {
    local file=$1 folder=$2 workspace=$3
    mkdir -p "$workspace"
    # pixi has no default channels, and reads `nodefaults` as the name of a channel.
    grep -v nodefaults "$file" >"$workspace/workflow.yaml"
    fetch_conda "$file" pixi init --import "$workspace/workflow.yaml" "$workspace"
    fetch_conda "$file" pixi install --manifest-path "$workspace/pixi.toml"
    ln -s "$(cd "$workspace" && pwd)/.pixi/envs/default" "$folder"
}

fetch_conda() {
    local output file=$1
    shift
    if ! output=$("$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 12 | sed 's/^/    /' >&2
        die "$1 could not make the environment of $file. See the lines above." \
            "Its channels have to be within reach."
    fi
}
