"""Make the password and the certificate of a cell-round, and the files with them, in its private folder."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes, programs
from vcsbench.environment import program_environment

USER = "vcsbench"
# The servers' name of what the password protects.
REALM = "vcsbench"
PASSWORD_BYTES = 18
PROGRAM_LIMIT_S = 60.0
VALID_DAYS = "2"
# Basic authentication with bcrypt hashes, which httpd caches (mod_authn_socache).
CACHED_BCRYPT = "basic-bcrypt-cached"
# htpasswd's option for the hash of each kind. bcrypt has htpasswd's default cost.
HASHES = {"basic-bcrypt": "-B", CACHED_BCRYPT: "-B", "basic-md5": "-m"}
MECHANISM = "DIGEST-MD5"
SASL_PROGRAM = "saslpasswd2"
# Debian and others have it in /usr/sbin, which is not on the PATH of all users. Set-up unpacks it.
SASL_PROGRAM_FOLDERS = ("/usr/sbin", str(programs.BUILT.parent / "sasl" / "usr" / "sbin"))
SASL_PLUGINS = ("libdigestmd5", "libsasldb")
SASL_FOLDERS = ("usr/lib/*-linux-*/sasl2", "usr/lib64/sasl2", "usr/lib/sasl2")
SASL_CONFIGURATION = """pwcheck_method: auxprop
auxprop_plugin: sasldb
sasldb_path: {database}
mech_list: {mechanism}
"""


class Credentials(NamedTuple):
    """A user with a password. The password is not in its text, which may be part of a message."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"


class Certificate(NamedTuple):
    """The files of a certificate and its private key."""

    certificate: Path
    key: Path


def make_credentials() -> Credentials:
    """Return a user with a new random password."""
    return Credentials(USER, os.urandom(PASSWORD_BYTES).hex())


def make_certificate(folder: Path, host: str) -> Certificate:
    """Make a certificate and a key for an https server, and return the two files.

    `host` is the server's IP address. The certificate is self-signed: a client accepts it only if its
    settings name this file. Only this user can read the key (ECDSA with P-256). Raise ProgramError if openssl
    fails.
    """
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    # openssl would make a key that others can read, but it keeps the mode of an existing file. So an empty
    # file is made first. O_EXCL and O_NOFOLLOW: it must not be another file, nor a link to one.
    os.close(os.open(files.key, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    # -nodes: the key has no password, which somebody would have to enter at each start of the server.
    argv += ["-nodes", "-days", VALID_DAYS, "-subj", f"/CN={host}"]
    # Clients compare the address that they connect to with this part of the certificate.
    argv += ["-addext", f"subjectAltName=IP:{host}"]
    argv += ["-keyout", str(files.key), "-out", str(files.certificate)]
    processes.run_program(argv, limit_s=PROGRAM_LIMIT_S)
    return files


def hash_password(credentials: Credentials, authentication: str) -> str:
    """Return the text of httpd's password file for a kind of authentication: `vcsbench:$2y$05$...`.

    Raise UserError if htpasswd fails.
    """
    argv = ["htpasswd", "-n", "-i", HASHES[authentication], credentials.user]
    return _pass_password(argv, credentials).strip() + "\n"


def svnserve_passwords(credentials: Credentials) -> str:
    """Return the text of svnserve's password file."""
    return f"[users]\n{credentials.user} = {credentials.password}\n"


def make_sasl_database(file: Path, credentials: Credentials) -> None:
    """Make SASL's database of users, with this user. Raise UserError if saslpasswd2 fails."""
    # -p: the program reads the password from its input. -c: it adds the user.
    argv = [_find_sasl_program(), "-p", "-c", "-f", str(file), "-u", REALM, credentials.user]
    _pass_password(argv, credentials)


def sasl_configuration(database: str) -> str:
    """Return the text of SASL's configuration for a database of users."""
    return SASL_CONFIGURATION.format(database=database, mechanism=MECHANISM)


def _pass_password(argv: list[str], credentials: Credentials) -> str:
    """Run a program that reads the password, and return its output. No command line has the password."""
    failure = f"{os.path.basename(argv[0])} cannot store a password"
    with processes.Program(argv, failure, stdin=processes.PIPE) as program:
        program.write(f"{credentials.password}\n".encode())
        program.close_input()
        return program.read_all().decode()


def store_credentials(config_folder: Path, realm: str, credentials: Credentials) -> None:
    """Store the user and password of a server, so that the client svn logs in without asking.

    svn gets `config_folder` as its --config-dir, and finds the password of a server by its `realm`, such as
    "<https://127.0.0.1:40123> vcsbench".
    """
    # In the same file, svn itself stores a password that somebody has typed.
    folder = config_folder / "auth" / "svn.simple"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    values = {
        "passtype": "simple",
        "password": credentials.password,
        "svn:realmstring": realm,
        "username": credentials.user,
    }
    # svn finds the file by this digest of the realm.
    name = hashlib.md5(realm.encode(), usedforsecurity=False).hexdigest()
    # Only this user can read the file. O_EXCL: it must be new, because others may have an existing one open.
    descriptor = os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(descriptor, "w") as file:
        file.write(_format_values(values))


def _format_values(values: Mapping[str, str]) -> str:
    r"""Return texts by name, all of ASCII, in the format of the files in which svn stores passwords.

    Each name (K) and text (V) has its length before it. Example for {"username": "vcsbench"}:
    "K 8\nusername\nV 8\nvcsbench\nEND\n".
    """
    lines = []
    for key, value in values.items():
        lines += [f"K {len(key)}", key, f"V {len(value)}", value]
    return "\n".join([*lines, "END\n"])


@cache
def why_no_certificate() -> str:
    """Return why no certificate can be made on this machine, in a clause; "" if one can."""
    return "" if shutil.which("openssl") else "openssl is not installed (Debian: openssl)"


@cache
def why_no_hash() -> str:
    """Return why no password file of httpd can be made on this machine, in a clause; "" if one can."""
    return "" if shutil.which("htpasswd") else "htpasswd is not installed (Debian: apache2-utils)"


@cache
def why_no_sasl(svnserve: str) -> str:
    """Return in a clause why `svnserve` cannot check passwords by SASL (a login library); "" if it can."""
    if not _find_sasl_program():
        return f"there is no {SASL_PROGRAM} (envs/unpack_sasl.sh unpacks it, without a service)"
    for plugin in SASL_PLUGINS:
        if not _has_sasl_plugin(plugin):
            return f"SASL's plug-in {plugin} is not installed (Debian: libsasl2-modules, -db)"
    printed = processes.run_program([svnserve, "--version"], may_fail=True).output
    return "" if "SASL" in printed else f"{svnserve} was built without SASL"


def _has_sasl_plugin(plugin: str) -> bool:
    """Return True if a plug-in is in one of SASL's folders. Which one depends on the distribution."""
    return any(any(Path("/").glob(f"{folder}/{plugin}.so*")) for folder in SASL_FOLDERS)


def _find_sasl_program() -> str:
    """Return the path of the program that makes SASL's database of users; "" if there is none."""
    folders = [program_environment()["PATH"], *SASL_PROGRAM_FOLDERS]
    return shutil.which(SASL_PROGRAM, path=os.pathsep.join(folders)) or ""
