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
    """The settings of a server as it is deployed. The defaults make a plain server.

    - `is_encrypted`: https, with TLS 1.3 only.
    - `authentication`: a kind of credentials.HASHES, password or sasl; "" for anonymous users.
    - `has_rules`: the server reads access rules (authz).
    - `path_authz`: on, off or short_circuit; "" for httpd's default.
    - `keep_alive`: on or off; "" for httpd's default.
    - `is_writable`: the server allows commits. It then serves a private copy only.
    - `bulk_updates`: on or off, as the client asks for; "" for its default.
    """

    is_encrypted: bool = False
    authentication: str = ""
    has_rules: bool = False
    path_authz: str = ""
    keep_alive: str = ""
    is_writable: bool = False
    bulk_updates: str = ""

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
    """Return the settings of a cell's server, such as Deployment(is_encrypted=True) over https."""
    # Without an axis, such as `authentication`, the recipe has no key. The default makes a plain server.
    return Deployment(
        is_encrypted=recipe["access"]["scheme"] == "https",
        authentication=recipe.get("authentication", ""),
        has_rules="access_rules" in recipe,
        path_authz=recipe.get("path_authz", ""),
        keep_alive=recipe.get("keep_alive", ""),
        # The command reads and writes a private copy of a repository: it commits.
        is_writable=recipe["input"] == "committed_repository",
        bulk_updates=recipe.get("bulk_updates", ""),
    )


def httpd_directives(deployment: Deployment, files: Mapping[str, str]) -> list[str]:
    """Return the lines of httpd's configuration for these settings; [] for a plain server.

    `files` has the paths of the `certificate`, its `key`, the `passwords` and the access `rules`, as far as
    the settings need these files: {"rules": "/proc/self/fd/5"}. In the whole configuration, these lines are
    the last ones, so that no other line replaces them.
    """
    lines = _server_directives(deployment, files)
    # httpd accepts the other directives only for some URLs. This section is for all URLs.
    location_lines = _location_directives(deployment, files)
    if location_lines:
        lines += ['<Location "/">', *(f"    {line}" for line in location_lines), "</Location>"]
    return lines


def _server_directives(deployment: Deployment, files: Mapping[str, str]) -> list[str]:
    """Return httpd's directives that are for the whole server. `files` is as in httpd_directives()."""
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
    if deployment.authentication == CACHED_BCRYPT:
        # The cache of checked passwords is in memory that all processes of httpd share.
        lines.append("AuthnCacheSOCache shmcb")
    return lines


def _location_directives(deployment: Deployment, files: Mapping[str, str]) -> list[str]:
    """Return httpd's directives for passwords, access rules and bulk updates (see httpd_directives)."""
    lines = []
    is_cached = deployment.authentication == CACHED_BCRYPT
    if is_cached:
        # By default, the cache has an entry for each folder of a URL, and most requests would find none.
        lines += ["AuthnCacheProvideFor file", "AuthnCacheContext server"]
    if deployment.authentication:
        lines += [
            # The configuration of the plain server has a `Require` for all paths, which allows some HTTP
            # methods only. Without `And`, the `Require` below would replace it.
            "AuthMerging And",
            "AuthType Basic",
            f'AuthName "{REALM}"',
            # `socache`: httpd looks for a checked password in the cache before it reads the file.
            f"AuthBasicProvider {'socache file' if is_cached else 'file'}",
            f'AuthUserFile "{files["passwords"]}"',
            "Require valid-user",
        ]
    if deployment.has_rules:
        lines.append(f'AuthzSVNAccessFile "{files["rules"]}"')
    if deployment.path_authz:
        lines.append(f"SVNPathAuthz {deployment.path_authz}")
    # httpd refuses bulk updates if the user's file says so. With `off`, the client asks for none.
    if deployment.bulk_updates == "on":
        lines.append("SVNAllowBulkUpdates On")
    return lines


def svnserve_configuration(deployment: Deployment, files: Mapping[str, str]) -> str:
    """Return the text of svnserve.conf for these settings; "" if they need no such file.

    `files` has the paths of the `passwords` and the access `rules`, as far as the settings need these files.
    """
    # The other settings, such as `keep_alive`, belong to httpd. svnserve has nothing like them.
    if not (deployment.authentication or deployment.has_rules or deployment.is_writable):
        return ""
    access = "write" if deployment.is_writable else "read"
    # If users have passwords, nobody gets in without one.
    anonymous = "none" if deployment.authentication else access
    lines = [
        "[general]",
        # The name of the server by which clients store its password.
        f"realm = {REALM}",
        f"anon-access = {anonymous}",
        f"auth-access = {access}",
    ]
    # With SASL, the passwords are in a database of SASL instead.
    if "passwords" in files:
        lines.append(f"password-db = {files['passwords']}")
    if deployment.has_rules:
        lines.append(f"authz-db = {files['rules']}")
    if deployment.authentication == SASL:
        # Without these limits, SASL would also encrypt the connection.
        lines += ["[sasl]", "use-sasl = true", "min-encryption = 0", "max-encryption = 0"]
    return "\n".join(lines) + "\n"
