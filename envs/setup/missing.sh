# shellcheck shell=bash disable=SC2034,SC2154 # sourced by envs/setup.sh, which sets package_lists
# What this machine lacks of what envs/debian-packages*.txt list.

oldest_hyperfine=1.15

# Folders where distributions keep httpd's modules.
httpd_module_folders=(
    /usr/lib/apache2/modules /usr/lib64/httpd/modules /usr/lib/httpd/modules
    /usr/libexec/apache2 /usr/local/libexec/apache24
)

# Is there: a command, a file (/...), a module of httpd (NAME.so), one of Python (python3:NAME)?
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
    # The package `hyperfine` of Python's index is something else: its command prints no version.
    [[ ${words[0]} == hyperfine && ${words[1]-} =~ ^[0-9]+\.[0-9]+ ]] || return 1
    printf '%s\n' "$oldest_hyperfine" "${words[1]}" | sort --check=quiet --version-sort
}

# Are all things of a comma-separated list there?
are_there() {
    local thing
    for thing in ${1//,/ }; do
        is_there "$thing" || return 1
    done
}

# Sets missing_must, missing_may and missing_python to the packages of that need that are missing,
# and missing_why[package] to what it is for. Arguments: the needs to look at; others stay empty.
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

# Says what goes missing with each package in missing_may.
say_what_is_lost() {
    local package
    for package in "${missing_may[@]}"; do
        say "$package is missing: ${missing_why[$package]}."
    done
}
