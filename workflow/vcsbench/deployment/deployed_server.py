"""Write the settings of a server as it is deployed: httpd's directives and svnserve's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.deployment.credentials import CACHED_BCRYPT, REALM

if TYPE_CHECKING:
    from vcsbench.records import Recipe

SASL = "sasl"
# The modules of httpd that settings need, in the order of loading.
ENCRYPTION_MODULES = ("ssl",)
AUTHENTICATION_MODULES = ("authn_core", "authn_file", "auth_basic", "authz_user")
PASSWORD_CACHE_MODULES = ("authn_socache", "socache_shmcb")
RULES_MODULES = ("authz_svn",)


class Deployment(NamedTuple):
    """The settings of a server as it is deployed. The defaults are those of a plain server.

    - `is_encrypted`: https, with TLS 1.3 only.
    - `authentication`: a kind of credentials.HASHES, password or sasl; "" for anonymous users.
    - `has_rules`: the server reads access rules (authz).
    - `path_authz`: on, off or short_circuit; "" for httpd's default.
    - `keep_alive`: on or off; "" for httpd's default.
    - `is_writable`: the server allows commits. It then serves a private copy only.
    """

    is_encrypted: bool = False
    authentication: str = ""
    has_rules: bool = False
    path_authz: str = ""
    keep_alive: str = ""
    is_writable: bool = False

    @property
    def modules(self) -> list[str]:
        """The modules of httpd that these settings need, in the order of loading, after dav_svn."""
        names: list[str] = []
        if self.is_encrypted:
            names += ENCRYPTION_MODULES
        if self.authentication:
            names += authentication_modules(self.authentication)
        if self.has_rules:
            names += RULES_MODULES
        return names


NOT_DEPLOYED = Deployment()


def authentication_modules(authentication: str) -> tuple[str, ...]:
    """Return the modules of httpd that a kind of authentication needs, in the order of loading."""
    if authentication == CACHED_BCRYPT:
        return (*AUTHENTICATION_MODULES, *PASSWORD_CACHE_MODULES)
    return AUTHENTICATION_MODULES


def deployment_of(recipe: Recipe) -> Deployment:
    """Return the settings of a cell's server. `recipe` has all that the cell's measurement depends on."""
    # An axis that the cell does not have sets no key. The setting is then that of a plain server.
    return Deployment(
        is_encrypted=recipe["access"]["scheme"] == "https",
        authentication=recipe.get("authentication", ""),
        has_rules="access_rules" in recipe,
        path_authz=recipe.get("path_authz", ""),
        keep_alive=recipe.get("keep_alive", ""),
        is_writable=recipe["input"] == "committed_repository",
    )


def httpd_directives(deployment: Deployment, files: Mapping[str, str]) -> list[str]:
    """Return httpd's directives for these settings, [] for a plain server.

    `files` has the paths of the `certificate`, its `key`, the `passwords` and the access `rules`, as far as
    the settings need them: {"rules": "/proc/self/fd/5"}. The caller writes these directives last, so that no
    other directive replaces them.
    """
    # Directives for the whole server come first.
    lines = []
    if deployment.keep_alive:
        lines.append(f"KeepAlive {deployment.keep_alive.capitalize()}")
    if deployment.is_encrypted:
        # Only one version of TLS is allowed, so that all runs measure the same one.
        lines += [
            "SSLEngine on",
            "SSLProtocol -all +TLSv1.3",
            f'SSLCertificateFile "{files["certificate"]}"',
            f'SSLCertificateKeyFile "{files["key"]}"',
        ]
    # Directives for all paths of URLs follow in one <Location>.
    location = []
    is_cached = deployment.authentication == CACHED_BCRYPT
    if is_cached:
        lines.append("AuthnCacheSOCache shmcb")
        # By default, the cache has an entry for each folder of a URL, and most requests would find none.
        location += ["AuthnCacheProvideFor file", "AuthnCacheContext server"]
    if deployment.authentication:
        location += [
            # The plain server allows some HTTP methods only, by a `Require` for all paths. With `And`, that
            # condition must hold as well as the `Require` below.
            "AuthMerging And",
            "AuthType Basic",
            f'AuthName "{REALM}"',
            f"AuthBasicProvider {'socache file' if is_cached else 'file'}",
            f'AuthUserFile "{files["passwords"]}"',
            "Require valid-user",
        ]
    if deployment.has_rules:
        location.append(f'AuthzSVNAccessFile "{files["rules"]}"')
    if deployment.path_authz:
        location.append(f"SVNPathAuthz {deployment.path_authz}")
    if location:
        lines += ['<Location "/">', *(f"    {line}" for line in location), "</Location>"]
    return lines


def svnserve_configuration(deployment: Deployment, files: Mapping[str, str]) -> str:
    """Return the text of svnserve's configuration (svnserve.conf) for these settings; "" if it needs none.

    `files` has the paths of the `passwords` and the access `rules`, as far as the settings need them.
    """
    # All other settings are httpd's. svnserve ignores them.
    if not (deployment.authentication or deployment.has_rules or deployment.is_writable):
        return ""
    access = "write" if deployment.is_writable else "read"
    # If users have passwords, nobody gets in without one.
    anonymous = "none" if deployment.authentication else access
    lines = [
        "[general]",
        f"realm = {REALM}",
        f"anon-access = {anonymous}",
        f"auth-access = {access}",
    ]
    # With SASL, the users are in a database of SASL, and not in a file of passwords.
    if "passwords" in files:
        lines.append(f"password-db = {files['passwords']}")
    if deployment.has_rules:
        lines.append(f"authz-db = {files['rules']}")
    if deployment.authentication == SASL:
        # Without these limits, SASL would also encrypt the connection.
        lines += ["[sasl]", "use-sasl = true", "min-encryption = 0", "max-encryption = 0"]
    return "\n".join(lines) + "\n"
