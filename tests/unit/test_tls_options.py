"""The options of TLS in a URL: what is wrong with one is said with its name and file, before a connection needs it."""

from __future__ import annotations

import inspect
import re
import ssl
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from redis import connection, exceptions

from tellback import Settings
from tellback.broker import broker_config
from tellback.errors import ConfigurationError, Unavailable
from tellback.hook.resp import WRONG_FILES, _wrap_tls
from tellback.state.database import Database
from tellback.state.unavailable import as_raised
from tellback.tls_options import OPTIONS, check_tls
from tellback.urls import Address, without_secrets
from tests.support.tls import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def folder(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are of no use: of no certificate, another's key, and the key encrypted by the password `secret`."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "text.pem").write_text("text\n")
    (folder / "other.pem").write_bytes(make_certificate(folder).key.read_bytes())
    key = serialization.load_pem_private_key(certificate.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    encrypted = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    (folder / "encrypted.pem").write_bytes(encrypted)
    return folder


CASES = [
    ("ssl_ca_certs={folder}/none.pem", r"^ssl_ca_certs: can't read \S+/none.pem: No such file or directory$"),
    ("ssl_ca_certs={folder}", "ssl_ca_certs: can't read .*: Is a directory"),
    ("ssl_ca_certs={folder}/text.pem", "ssl_ca_certs: .*text.pem holds no certificate"),
    ("ssl_certfile={cert}", "ssl_certfile: .*cert.pem does not hold .* name the key by ssl_keyfile"),
    ("ssl_keyfile={key}", "ssl_keyfile is of no use without ssl_certfile"),
    ("ssl_certfile={cert}&ssl_keyfile={folder}/none.pem", "ssl_keyfile: can't read .*none.pem"),
    ("ssl_certfile={cert}&ssl_keyfile={folder}/other.pem", "ssl_keyfile: .*other.pem has the key of another"),
    ("ssl_certfile={cert}&ssl_keyfile={folder}/encrypted.pem", "ssl_password is not its password"),
    ("ssl_certfile={folder}/text.pem&ssl_keyfile={key}", "text.pem holds no certificate, or .*key.pem no key"),
    ("ssl_cert_reqs=some", "ssl_cert_reqs is not one of none, optional, required"),
    ("ssl_ca_cert={cert}", "no option ssl_ca_cert; use ssl_ca_certs, ssl_certfile"),
]


def filled(text: str, certificate: Certificate, folder: Path) -> str:
    return text.format(folder=folder, cert=certificate.made, key=certificate.key)


@pytest.mark.parametrize(("options", "said"), CASES)
@pytest.mark.parametrize(
    "form", ["rediss://h/0?{}", "rediss+cluster://a,b?{}", "sentinel://a;sentinel://b/0?master_name=m&{}"]
)
def test_what_is_wrong_with_an_option_is_named(
    form: str, options: str, said: str, certificate: Certificate, folder: Path
) -> None:
    url = form.format(filled(options, certificate, folder))
    with pytest.raises(ConfigurationError, match=said):
        Database(url)
    if "cluster" not in form:  # Celery uses no cluster
        with pytest.raises(ConfigurationError, match=r"TELLBACK_BROKER_URL: .*ssl_"):
            broker_config(Settings(broker_url=url))


def test_what_can_be_used_is_let_through(certificate: Certificate, folder: Path) -> None:
    check_tls(f"rediss://h/0?{certificate.options}&ssl_cert_reqs=required&ssl_check_hostname=false")
    check_tls(f"rediss://h/0?ssl_certfile={certificate.made}&ssl_keyfile={folder}/encrypted.pem&ssl_password=secret")
    check_tls("redis://h/0")
    with pytest.raises(ConfigurationError, match="use rediss://"):
        check_tls(f"redis://h/0?{certificate.options}")


@pytest.mark.parametrize("options", [options for options, said in CASES if "can't" in said or "password" in said])
def test_a_hook_asks_nobody_for_a_password_and_says_what_to_do(
    options: str, certificate: Certificate, folder: Path
) -> None:
    """OpenSSL asked at the agent's terminal."""
    import _socket

    line, address = _socket.socket(), Address(f"rediss://h/0?{filled(options, certificate, folder)}")
    with pytest.raises(Unavailable, match=WRONG_FILES[:20]):
        _wrap_tls(line, address)
    line.close()


def test_the_password_of_a_key_is_not_shown() -> None:
    assert without_secrets("rediss://h/0?ssl_password=swordfish&ssl_keyfile=k") == (
        "rediss://h/0?ssl_password=***&ssl_keyfile=k"
    )


def test_redis_py_knows_each_option() -> None:
    known = inspect.signature(cast("Any", connection).SSLConnection.__init__).parameters
    assert set(OPTIONS) <= set(known)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("gone", "ssl_keyfile: can't read .*key.pem: No such file or directory$"),
        ("of another certificate", "ssl_keyfile: .*key.pem has the key of another certificate"),
        ("empty", "ssl_ca_certs: .*cert.pem holds no certificate"),
    ],
)
def test_a_file_that_changed_since_the_process_began_is_named(tmp_path: Path, change: str, said: str) -> None:
    """Its advice was to start Redis, for "no such file or directory", or it said "PEM lib" and named no file."""
    (tmp_path / "new").mkdir()
    certificate = make_certificate(tmp_path)
    if change == "gone":
        certificate.key.unlink()
    elif change == "empty":
        certificate.made.write_bytes(b"")
    else:
        make_certificate(tmp_path / "new").key.replace(certificate.key)
    error = redis_error(certificate)
    url = f"rediss://127.0.0.1:6379/0?{certificate.options}"
    assert re.search(f"^No TLS with Redis at 127.0.0.1:6379: {said}", str(as_raised(error, url)))


def redis_error(certificate: Certificate) -> Exception:
    """The error that redis-py raises once it has reached a server and loads the files."""
    try:
        try:
            context = ssl.create_default_context()
            context.load_cert_chain(certificate.made, certificate.key)
            context.load_verify_locations(certificate.made)
        except OSError as error:
            raise exceptions.ConnectionError(str(error))  # noqa: B904 - as redis-py does
    except exceptions.ConnectionError as error:
        return error
    raise AssertionError("the files can be used")
