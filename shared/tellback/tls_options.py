"""The options of TLS in the URL of a Redis, checked before a connection needs them.

OpenSSL names no file in its errors, and asks at the terminal for the password of an encrypted key: a worker waited.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tellback.errors import ConfigurationError
from tellback.sanitize import inert_line
from tellback.urls import Address, servers_of

CERTIFICATE_CHECKS: Final = ("none", "optional", "required")

FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

# Those that a URL can give, the documented ones first. redis-py raises TypeError for others.
OPTIONS: Final = (
    *FILES, "ssl_password", "ssl_cert_reqs", "ssl_check_hostname",
    "ssl_ca_data", "ssl_ca_path", "ssl_ciphers", "ssl_exclude_verify_flags", "ssl_include_verify_flags",
    "ssl_min_version", "ssl_validate_ocsp", "ssl_validate_ocsp_stapled",
)  # fmt: skip


def check_tls(url: str) -> None:
    """Check that the files which a URL names for TLS can be read, and hold what they are named for.

    Raises:
        ConfigurationError: an option is wrong; the message names it and its file.
        ValueError: the URL is not that of a Redis; the message may contain part of the password.
    """
    servers = servers_of(url)
    address = Address(servers.nodes[0] if servers else url)
    options = {name: value for name, value in address.query.items() if name.startswith("ssl_")}
    if unknown := next((name for name in options if name not in OPTIONS), ""):
        raise ConfigurationError(f"there is no option {inert_line(unknown)[:40]}; use {', '.join(OPTIONS[:6])}")
    if options and address.scheme == "redis":
        raise ConfigurationError(f"{next(iter(options))} is for TLS, but the URL begins with redis://: use rediss://")
    if options:
        _check(options)


def _check(options: Mapping[str, str]) -> None:
    import ssl  # noqa: PLC0415 - most processes use no TLS

    if options.get("ssl_cert_reqs", "none") not in CERTIFICATE_CHECKS:
        raise ConfigurationError(f"ssl_cert_reqs is not one of {', '.join(CERTIFICATE_CHECKS)}")
    named = {name: options[name] for name in FILES if name in options}
    shown = {name: inert_line(path) for name, path in named.items()}
    for name, path in named.items():
        try:
            with Path(path).open("rb"):
                pass
        except (OSError, ValueError) as error:  # the latter for a NUL in the path
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise ConfigurationError(f"{name}: can't read {shown[name]}: {reason}") from None
    if "ssl_keyfile" in named and "ssl_certfile" not in named:
        raise ConfigurationError("ssl_keyfile is of no use without ssl_certfile, the certificate of this key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if "ssl_ca_certs" in named:
            context.load_verify_locations(named["ssl_ca_certs"])
    except ssl.SSLError:
        raise ConfigurationError(f"ssl_ca_certs: {shown['ssl_ca_certs']} holds no certificate (PEM)") from None
    if "ssl_certfile" in named:
        try:
            # a password, also an empty one, keeps OpenSSL from asking for one
            context.load_cert_chain(named["ssl_certfile"], named.get("ssl_keyfile"), options.get("ssl_password", ""))
        except ssl.SSLError as error:
            raise ConfigurationError(_of_chain(error.reason, shown)) from None


def _of_chain(reason: str | None, shown: Mapping[str, str]) -> str:
    certificate, key = shown["ssl_certfile"], shown.get("ssl_keyfile")
    if reason == "KEY_VALUES_MISMATCH":
        return f"ssl_keyfile: {key or certificate} has the key of another certificate than {certificate}"
    if key is None:
        return f"ssl_certfile: {certificate} does not hold a certificate and its key (PEM); name the key by ssl_keyfile"
    return (
        f"ssl_certfile, ssl_keyfile: {certificate} holds no certificate, or {key} no key (PEM), or the key is "
        "encrypted and ssl_password is not its password"
    )
