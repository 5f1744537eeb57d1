# shellcheck shell=bash disable=SC2034,SC2154 # sourced by envs/setup.sh, which sets package_lists
# Find the entries of envs/debian-packages*.txt that this machine lacks.

oldest_hyperfine=1.15

# Folders where distributions keep httpd's modules.
httpd_module_folders=(
    /usr/lib/apache2/modules /usr/lib64/httpd/modules /usr/lib/httpd/modules
    /usr/libexec/apache2 /usr/local/libexec/apache24
)

# Succeeds if a command, a file (/...), a module of httpd (NAME.so) or of Python (python3:NAME) exists.
is_there() {
    local folder
    case $1 in
    /*) [[ -e $1 ]] ;;
    *.so)
        for folder in "${httpd_module_folders[@]}"; do
            [[ -e $folder/$1 ]] && return
        done
        return 1
        ;;
    python3:*) python3 -c "import ${1#python3:}" 2>/dev/null ;;
    hyperfine) is_new_enough_hyperfine ;;
    # util-linux before 2.33, and busybox, have a setpriv without this option.
    setpriv) is_command setpriv && setpriv --pdeathsig KILL -- true &>/dev/null ;;
    # Fedora and others call it httpd.
    apache2) is_command apache2 || is_command httpd ;;
    *) is_command "$1" ;;
    esac
}

is_command() {
    type -P "$1" >/dev/null
}

is_new_enough_hyperfine() {
    local words
    read -r -a words < <(hyperfine --version 2>/dev/null) || return 1
    # The Python package `hyperfine` is another program: its command prints no version.
    [[ ${words[0]} == hyperfine ]] && is_new_enough "${words[1]-}"
}

# Succeeds for a version of hyperfine that vcsbench can use.
is_new_enough() {
    [[ $1 =~ ^[0-9]+\.[0-9]+ ]] || return 1
    printf '%s\n' "$oldest_hyperfine" "$1" | sort --check=quiet --version-sort
}

# Succeeds if all entries of a comma-separated list exist.
are_there() {
    local thing
    for thing in ${1//,/ }; do
        is_there "$thing" || return 1
    done
}

# Sets missing_must, missing_may and missing_python to the missing packages of each need, and
# missing_why[package] to its use. Arguments: the needs to check; the others stay empty.
declare -A missing_why=()
find_missing() {
    missing_must=() missing_may=() missing_python=()
    local package need gives why
    while read -r package need gives why; do
        [[ -z $package || $package == "#"* ]] && continue
        [[ $need =~ ^(must|may|python)$ ]] ||
            die "$package in envs/debian-packages*.txt: its need is must, may or python, not '$need'."
        [[ " $* " == *" $need "* ]] || continue
        are_there "$gives" && continue
        missing_why[$package]=${why#"# "}
        case $need in
        must) missing_must+=("$package") ;;
        may) missing_may+=("$package") ;;
        python) missing_python+=("$package") ;;
        esac
    done < <(cat -- "${package_lists[@]}")
}

# Reports the loss for each package in missing_may.
report_losses() {
    local package
    for package in "${missing_may[@]}"; do
        say "$package is missing. It is for ${missing_why[$package]}."
    done
}
