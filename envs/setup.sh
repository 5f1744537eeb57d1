#!/usr/bin/env bash
# Sets up what vcsbench needs: Debian packages through apt, the Python tools in .venv through uv; or
# all of it in .conda where there is no apt or no root. Where all is there it does nothing, quickly.
# usage: envs/setup.sh [--test] [--cluster]    --test: what the tests need as well
#                                               --cluster: what submits to a cluster's scheduler
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
root=$PWD

say() { printf 'set-up: %s\n' "$*"; }
die() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

. envs/setup/path.sh
check_path
use_own_installer_caches
. envs/setup/missing.sh
. envs/setup/python.sh
. envs/setup/conda.sh
. envs/setup/native.sh

package_lists=(envs/debian-packages.txt)
python_locks=(envs/python.lock)
# What was asked for once stays.
[[ ! -e .venv/vcsbench-cluster ]] || python_locks+=(envs/cluster.lock)
for option; do
    case $option in
    --test)
        package_lists+=(envs/debian-packages-test.txt)
        with_guest=yes
        ;;
    --cluster) python_locks=(envs/python.lock envs/cluster.lock) ;;
    *) die "usage: envs/setup.sh [--test] [--cluster]" ;;
    esac
done
# One for each kind, so that `make report` and `make test` in turns do not undo each other's.
stamp=vcsbench$*.stamp
# `make test-all` runs a Slurm of its own.
[[ " $* " != *" --test "* || " $* " != *" --cluster "* ]] || package_lists+=(envs/debian-packages-test-cluster.txt)

# What a finished set-up depends on. While something is missing, it also depends on who asks: root
# can install it. The folder's name is part of it, because environments cannot be moved.
fingerprint() {
    sha256sum envs/*.lock envs/workflow.yaml envs/setup.sh envs/setup/*.sh "${package_lists[@]}"
    printf '%s\n' "$root" "${missing_must[*]} ${missing_may[*]}"
    ((${#missing_must[@]} + ${#missing_may[@]} == 0)) || id -u
}

is_finished() {
    local environment
    environment=$(finished_environment)
    [[ $environment && -x $environment/bin/python && -e $environment/$stamp ]] &&
        [[ $(fingerprint) == "$(<"$environment/$stamp")" ]] && is_native_built
}

finish() {
    local environment=$1 other
    for other in .venv .conda; do
        [[ $other == "$environment" ]] || rm -f "$other"/vcsbench*.stamp
    done
    fingerprint >"$environment/$stamp"
}

# Sets as_root to the words that run a command as root; false where nothing does.
find_root() {
    as_root=()
    [[ $(id -u) == 0 ]] && return
    type -P sudo >/dev/null || return
    if sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    elif [[ -t 0 ]]; then
        as_root=(sudo) # it asks for the password
    else
        return 1
    fi
}

# Installs packages where apt and root are there; otherwise sets why_not.
why_not=""
install_with_apt() {
    if (($# == 0)); then
        return
    elif ! type -P apt-get >/dev/null; then
        why_not="this machine has no apt-get"
    elif ! find_root; then
        why_not="this user is not root, and sudo is missing or needs a password"
    else
        say "installing with apt-get${as_root:+ by sudo}: $*"
        "${as_root[@]}" bash envs/setup/install-debian-packages.sh "$@" ||
            why_not="apt-get could not; the lines above say why"
    fi
}

# Ubuntu 22.04 packages a hyperfine that cannot run commands without a shell.
build_hyperfine() {
    type -P hyperfine >/dev/null && ! is_new_enough_hyperfine || return 0
    type -P cargo >/dev/null || install_with_apt cargo
    say "building hyperfine 1.18.0 in .tools: the machine's is older than $oldest_hyperfine"
    cargo install --quiet --locked --root .tools --version 1.18.0 hyperfine ||
        why_not="this machine's hyperfine is too old, and cargo could not build one"
    hash -r
}

explain_and_end() {
    local package packages=("${missing_must[@]}" "${missing_python[@]}")
    {
        echo "set-up: these are missing and could not be installed: $why_not."
        for package in "${packages[@]}"; do
            printf '    %-16s %s\n' "$package" "${missing_why[$package]}"
        done
        echo "One of these gets them; then run this again:"
        echo "  - as root on Debian or Ubuntu:" \
            "apt-get install --no-install-recommends ${packages[*]} ${missing_may[*]}"
        echo "  - without root: conda, mamba, micromamba or pixi on PATH; it will get the rest"
        echo "  - their programs on PATH, wherever they come from"
    } >&2
    exit 1
}

set_up() {
    local environment=.venv tool
    # What gets uv is not looked for where uv is: Python comes from there, too.
    local needs=(must may)
    find_uv >/dev/null || needs+=(python)
    find_missing "${needs[@]}"
    install_with_apt "${missing_must[@]}" "${missing_python[@]}" "${missing_may[@]}"
    build_hyperfine
    find_missing "${needs[@]}"
    if ((${#missing_must[@]} + ${#missing_python[@]} == 0)); then
        make_python_environment
    else
        tool=$(find_conda) || explain_and_end
        environment=.conda
        make_conda_environment "$tool" envs/workflow.yaml "$root/.conda" .tools/pixi
        use_environment .conda
        find_missing must may
        ((${#missing_must[@]} == 0)) || die "the environment in .conda lacks ${missing_must[*]}."
    fi
    build_native
    finish "$environment"
    say "finished, in $environment"
}

use_environment "$(finished_environment)"
find_missing must may
if ! is_finished; then
    exec {lock}<envs # two set-ups at once would tread on each other: the second waits
    flock "$lock"
    find_missing must may
    is_finished || set_up
fi
# Its tests and its study's NFS rows are skipped without it.
case " ${STUDY-} " in *working-copy-2012* | *[\ ,]all[\ ,]*) with_guest=yes ;; esac
[[ -z ${with_guest-} || -e .tools/nfs-guest ]] || envs/unpack_nfs_guest.sh || true
say_what_is_lost
if [[ $(finished_environment) == .conda && " ${missing_may[*]} " == *" libapache2-mod-svn "* ]]; then
    say "conda-forge's Subversion has no mod_dav_svn; Debian's libapache2-mod-svn brings one."
fi
