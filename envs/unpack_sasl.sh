#!/usr/bin/env bash
# Fetches saslpasswd2, which makes svnserve's SASL passwords, from this machine's Debian archive. It is unpacked and not
# installed, because its package has a service, too.
# usage: envs/unpack_sasl.sh        into .tools/sasl; needs no root
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

folder=.tools/sasl

. envs/setup/unpack.sh
check_unpacking apt-get dpkg-deb
unpack_packages sasl2-bin
# Its libraries are those of the Subversion packages. A program without one of them exits with 127.
"$parts/root/usr/sbin/saslpasswd2" -v &>"$parts/output" || (($? != 127)) ||
    die "saslpasswd2 does not run here: $(tail -n 1 "$parts/output")"
mv -- "$parts/root" "$folder"
say "made $folder"
