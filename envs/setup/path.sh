# shellcheck shell=bash disable=SC2154 # sourced with $root set
# The checkout's path, its environment, its caches, and its programs on PATH.

# The user's settings of Python change or break runs. Without bytecode, each cell would compile the modules again.
for variable in "${!PYTHON@}"; do
    [[ $variable == PYTHONPATH ]] || unset "$variable"
done

# Ends with one sentence if the checkout's path has a character that breaks a run: Snakemake writes the path of Python
# into shell lines without quotes, formats paths as {templates}, and reads them as patterns; PATH ends a folder at a colon.
check_path() {
    local number character name physical
    physical=$(pwd -P && printf x)
    physical=${physical%$'\nx'}
    local path=$root$physical
    local LC_ALL=C
    for ((number = 0; number < ${#path}; number++)); do
        character=${path:number:1}
        case $character in
        " ") name="a space" ;;
        [[:cntrl:]]) name="a control character" ;;
        [\'\"\`\$\\\&\;\|\<\>\(\)\{\}\[\]*?!:]) name="the character $character" ;;
        *) continue ;;
        esac
        die "$(printf '%q' "$physical"): the path of the checkout has $name. Move the checkout to a path of letters, digits" \
            "and the characters . _ - + = , @ % # ~, for example /srv/vcsbench."
    done
    if type -P iconv >/dev/null && ! printf '%s' "$path" | iconv -f UTF-8 -t UTF-8 &>/dev/null; then
        die "$(printf '%q' "$physical"): the path of the checkout is not UTF-8. Move the checkout to another path."
    fi
}

# Prints .venv or .conda, the last finished set-up; prints nothing without a set-up.
finished_environment() {
    local environment stamp
    for environment in .venv .conda; do
        for stamp in "$root/$environment"/vcsbench*.stamp; do
            if [[ -e $stamp ]]; then
                printf '%s\n' "$environment"
                return
            fi
        done
    done
}

# Puts an environment ("" for none) and the checkout's tools in front on PATH, and /usr/sbin at its end: apache2 is
# there, and the PATH of Debian's users lacks it.
use_environment() {
    export PATH="${1:+$root/$1/bin:}$root/.tools/bin:$PATH:/usr/sbin:/sbin"
}

# Keeps the caches of a run inside the checkout, because a home may be missing or read-only.
use_own_caches() {
    if [[ -e $root/.vcsbench && ! -d $root/.vcsbench ]]; then
        printf '%s: this is no folder, and vcsbench writes there. Move it elsewhere.\n' "$root/.vcsbench" >&2
        exit 1
    fi
    export XDG_CACHE_HOME=$root/.vcsbench/caches
    # Snakemake records the user's name. A container's user may have none.
    id -un &>/dev/null || export USER=${USER:-$(id -u 2>/dev/null || echo user)}
}

# Keeps the caches of installers inside the checkout if the home cannot be written.
use_own_installer_caches() {
    local home=${HOME-} caches=$root/.tools/caches folder
    folder=$home
    [[ ! -e $home/.cache ]] || folder=$home/.cache
    # Root may pass the test of permissions where the file system refuses.
    if [[ $home == /?* ]] && folder=$(mktemp -d "$folder/.vcsbench-XXXXXX" 2>/dev/null); then
        rmdir "$folder"
        return
    fi
    export XDG_CACHE_HOME=$caches UV_CACHE_DIR=$caches/uv UV_PYTHON_INSTALL_DIR=$root/.tools/python
    export PIP_CACHE_DIR=$caches/pip CARGO_HOME=$caches/cargo PIXI_HOME=$caches/pixi RATTLER_CACHE_DIR=$caches/rattler
    export MAMBA_ROOT_PREFIX=$caches/mamba CONDA_PKGS_DIRS=$caches/conda
}
