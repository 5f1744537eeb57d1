"""Make the password and the certificate of a cell-round, and the files with them, in its private folder."""

from __future__ import annotations

import hashlib
import os
import shutil
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
    """Make a self-signed certificate for an address in a folder, and return its files.

    `host` is the address of the server, such as 127.0.0.1. The key of the certificate is ECDSA with P-256,
    and only this user can read the file of the key. Raise ProgramError if openssl fails.
    """
    files = Certificate(folder / "certificate.pem", folder / "key.pem")
    # The file of the key is made first, because openssl keeps the mode of an existing file.
    os.close(os.open(files.key, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    # -nodes: the key has no password, which somebody would have to enter at each start of the server.
    argv += ["-nodes", "-days", VALID_DAYS, "-subj", f"/CN={host}"]
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
    """Store a user with password in a client's configuration folder, where svn looks for it.

    `realm` is the name by which svn stores a password: `<https://127.0.0.1:40123> vcsbench`, for example.
    """
    folder = config_folder / "auth" / "svn.simple"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    values = {
        "passtype": "simple",
        "password": credentials.password,
        "svn:realmstring": realm,
        "username": credentials.user,
    }
    # The format of auth/svn.simple: a length and a text for each key (K) and value (V), and END.
    lines = []
    for key, value in values.items():
        lines += [f"K {len(key)}", key, f"V {len(value)}", value]
    lines.append("END\n")
    # svn finds the file by the digest of the realm.
    name = hashlib.md5(realm.encode(), usedforsecurity=False).hexdigest()
    # O_EXCL: the file must be new, because others may have an existing one open. Only this user can read it.
    with open(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write("\n".join(lines))


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
    """Return why a program svnserve cannot use SASL on this machine, in a clause; "" if it can."""
    if not _find_sasl_program():
        return f"there is no {SASL_PROGRAM} (envs/unpack_sasl.sh unpacks it, without a service)"
    # The plug-ins of SASL are in one of SASL_FOLDERS. Which one depends on the distribution.
    for plugin in SASL_PLUGINS:
        if not any(any(Path("/").glob(f"{folder}/{plugin}.so*")) for folder in SASL_FOLDERS):
            return f"SASL's plug-in {plugin} is not installed (Debian: libsasl2-modules, -db)"
    printed = processes.run_program([svnserve, "--version"], may_fail=True).output
    return "" if "SASL" in printed else f"{svnserve} was built without SASL"


def _find_sasl_program() -> str:
    folders = [program_environment()["PATH"], *SASL_PROGRAM_FOLDERS]
    return shutil.which(SASL_PROGRAM, path=os.pathsep.join(folders)) or ""
