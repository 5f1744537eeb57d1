# shellcheck shell=bash # sourced by envs/setup.sh
# What is built from C, in .tools/lib: the library that has Subversion's client clone working files.

reflink_source=workflow/native/svn_reflink.c
reflink_library=.tools/lib/svn_reflink.so
# It could not be built from this source: that is tried once.
reflink_failed=$reflink_library.failed

# Is it there, or is there nothing to be done about it?
is_native_built() {
    is_command gcc || return 0
    local file
    for file in "$reflink_library" "$reflink_failed"; do
        [[ -e $file && ! $reflink_source -nt $file ]] && return
    done
    return 1
}

# Without a compiler, or the headers that it needs, cells with reflinks are skipped.
build_native() {
    is_native_built && return
    mkdir -p "${reflink_library%/*}"
    rm -f "$reflink_library" "$reflink_failed"
    say "building $reflink_library"
    # Under another name first: who was interrupted has none.
    if gcc -shared -fPIC -O2 -Wall "$reflink_source" -o "$reflink_library.new" -ldl; then
        mv "$reflink_library.new" "$reflink_library"
    else
        touch "$reflink_failed"
        say "$reflink_library could not be built: cells with reflinks are skipped"
    fi
}
