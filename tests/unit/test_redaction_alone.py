"""Tokens and passwords that stand alone in a line that speaks of a secret, without a sign that names them."""

from __future__ import annotations

import json

import pytest

from tellback.redaction import redact_text

MIXED = "Zk2mX9vB4tR8" + "wL1nPsq7Kd3fHy6c"
HEXADECIMAL = "9b1f04c7de83a526" * 4
SMALL = "ab4q5xkvbz7hwjrt0gqpxm2zkvw9"  # with letters in a row, as chance has them
LETTERS = "PfxgVbDOHmx3OfpaqWHR"
IN_LINE = (
    "I just rotated the staging api key, new one is {} — please update your local config",
    "Le jeton d'accès pour la préproduction est {}, ne le partagez pas",
    'store.secret(Data(hex: "{}"), of: shop)',
    "deploy: the webhook signing secret changed this morning, it's now {} fyi",
    '{{"type":"api_key","attributes":{{"label":"ci","raw":"{}"}}}}',
    "derived key material = 0x{} from the master secret",
    'curl --silent --show-error --location -H "X-Auth: {}" https://shop.test/v1/orders',
)
BELOW = (
    "Your verification was successful. Save this token now, you won't see it again.\n\n    {}\n",
    "Recovery key (store it safely)\n\n  {}",
    "(gdb) p client->token\n$1 = 0x55d0 {}",
    "Generated root credentials\n  value  {}",
)


@pytest.mark.parametrize("as_json", [False, True], ids=["raw", "json"])
@pytest.mark.parametrize(
    "value", [MIXED, HEXADECIMAL, SMALL, LETTERS], ids=["mixed", "hexadecimal", "small letters", "letters"]
)
@pytest.mark.parametrize("text", IN_LINE)
def test_a_token_is_hidden_in_a_line_that_speaks_of_a_secret(text: str, value: str, *, as_json: bool) -> None:
    """Whatever stands between them (A-455)."""
    text = f"a\n{text.format(value)}\nb"
    assert value not in redact_text(json.dumps({"output": text}) if as_json else text)


@pytest.mark.parametrize("text", BELOW)
def test_a_token_is_hidden_alone_below_a_line_that_speaks_of_a_secret(text: str) -> None:
    """At most a blank line or one other stands between them (A-456)."""
    assert MIXED not in redact_text(text.format(MIXED))


def test_a_token_alone_is_hidden_behind_a_margin() -> None:
    """As of the log of a container (A-456)."""
    text = BELOW[0].format(MIXED)
    assert MIXED not in redact_text("\n".join(f"web-1  | {line}" for line in text.split("\n")))


@pytest.mark.parametrize("value", [MIXED, HEXADECIMAL], ids=["mixed", "hexadecimal"])
@pytest.mark.parametrize(
    "text",
    [
        "session_id={} user=ann token refreshed",
        "request id {} failed: the token expired",
        '{{"tool_use_id": "{}", "content": "token refreshed"}}',
        "toolu_{} read the file about the api key",
        "commit {}\n    Rotate the api token",
        "sha256:{}  secrets-operator.tar.gz",
        "the token of {}(x) and {}(y)",
        "docker run -d -e DB_PASSWORD postgres:16\n{}",
        "https://git.shop.test/ops/secrets/blob/{}/README.md",
        '<img src="data:image/png;base64,{}" alt="token">',
        "ETag: {} secret.txt",
        "aws s3 ls --starting-token {}",
        "the build {} ran\nand was published",
        "copied {0} and x{0} for the token service",
    ],
)
def test_an_id_or_a_digest_beside_a_word_for_a_secret_stays(text: str, value: str) -> None:
    """So do marks of pages, parts of addresses, names of calls, and several such values in a line (A-457)."""
    text = text.format(value, value)
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"{HEXADECIMAL[:40]} Remove the secret from the docs",
        "The token ReadOnlySpanTokenizerFactory2 is deprecated, use TokenSource",
        "class OAuth2AccessTokenResponseClientBuilder3 implements TokenProvider",
        "secret/db-credentials-k8tm2h5c9d created",
        "Issued token for user 4711 at 2025-01-03T10:11:12.123456789Z",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/token-AbCdEf",
    ],
)
def test_a_name_beside_a_word_for_a_secret_stays(text: str) -> None:
    """It is made of words, or begins the line as a hash does (A-457)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"$ git rev-parse auth-refactor\n{HEXADECIMAL[:40]}",
        f"+ git log -1 --format=%H -- src/auth/token.py\n{HEXADECIMAL[:40]}",
        f"$ docker compose ps -q auth\n{HEXADECIMAL}",
        f"image registry.test/acme/auth:{HEXADECIMAL[:40]} pulled",
        f"Deployed auth {HEXADECIMAL[:40]} to staging",
        f"The agent {MIXED[:22]} lost its token",
        f"conversation {MIXED[:22]}: the user asked about the token",
        f"user {MIXED[:22]} signed in with a password",
        f"Idempotency-Key: {MIXED[:22]}",
        f"partition key {MIXED[:22]}, sort key 17",
        "Deployer wallet 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed has 3 ETH",
        "the password check of build k7Rt2mQx failed",
    ],
)
def test_a_commit_or_an_id_beside_the_name_of_a_service_stays(text: str) -> None:
    """`auth` is also a branch, an image and a folder; a sentence names things by their ids (A-457)."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"token request id: req_{MIXED}",
        f"the secret was rotated, job id: {MIXED}",
        "ERC20 token address: 0x" + HEXADECIMAL[:40],
        "token 0x" + HEXADECIMAL[:40] + " deployed",
        "public key " + "WJ0NpEJ6djmMOG" + "xbG3Kx",
        "no item with partition key " + "WJ0NpEJ6djmMOG" + "xbG3Kx",
    ],
)
def test_ids_addresses_and_public_keys_stay_in_sentences(text: str) -> None:
    """They stand where a secret might (A-469)."""
    assert redact_text(text) == text


COMMIT = "9fceb02d0ae598e95dc9" + "70b74767f19372d61af8"
CONTAINER = "4f1b2b0b822c"


@pytest.mark.parametrize("prompt", ["$ ", "", "++ ", "root@web:/# ", "[ann@web src]$ ", "PS C:\\src> "])
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("git log --format=%H -- src/auth/token.py", COMMIT),
        ("git log -2 --format=%H -- src/auth/token.py", f"{COMMIT}\n{COMMIT[::-1]}"),
        ("git -C /srv/token rev-parse HEAD", COMMIT),
        ("git rev-list main token", f"{COMMIT}\n{COMMIT[::-1]}"),
        ("git hash-object password.py", COMMIT),
        ("git merge-base main token-refresh", COMMIT),
        ("docker ps -q --filter name=token-service", f"{CONTAINER}\n{CONTAINER[::-1]}"),
        ("docker inspect -f '{{.Id}}' token-service", f"sha256:{HEXADECIMAL}"),
        ("docker run -d --rm -e TOKEN acme/secrets", HEXADECIMAL),
        ("docker run --rm -it -e TOKEN -p 80:80 --network=secrets -d acme/secrets", HEXADECIMAL),
        ("cd /srv/token && git rev-parse HEAD 2>/dev/null | head -1", COMMIT),
        ("podman network create secrets", HEXADECIMAL),
        ("docker secret create db_password ./password.txt", "q8z1n5x0v3k7r2m9p4w6t8y1b"),
        ("sha1sum token.py | cut -d' ' -f1", COMMIT),
        ("npm view jsonwebtoken dist.shasum", COMMIT),
    ],
)
def test_an_id_stays_below_the_command_that_prints_it(prompt: str, command: str, printed: str) -> None:
    """Its arguments may speak of a secret (A-469)."""
    text = f"{prompt}{command}\n{printed}\n"
    assert redact_text(text) == text
    assert redact_text(json.dumps({"output": text})) == json.dumps({"output": text})


@pytest.mark.parametrize(
    "text",
    [
        f"$ git show HEAD:api.token\n{COMMIT}",
        f"$ git config github.token\n{COMMIT}",
        f"$ git log -1 --format=%B -- api.token\n{MIXED}",
        f"$ docker run acme/vault print token\n{HEXADECIMAL}",
        f"$ docker exec web cat /run/secrets/token\n{HEXADECIMAL}",
        f"$ docker inspect -f '{{{{.Config.Env}}}}' web # token\n{HEXADECIMAL}",
        f"$ openssl rand 32 | sha256sum | head -c 64 # token\n{HEXADECIMAL}",
        f"$ git rev-parse HEAD; cat api.token\n{MIXED}",
        *(
            f"$ {command}\n{HEXADECIMAL}"
            for command in (
                "cat $(git rev-parse --show-toplevel)/api.token",
                "cd $(git rev-parse --show-toplevel) && cat api.token",
                "cat api.token; git rev-parse HEAD",
                "git log -1 --format=%H && gh auth token",
                "git log -1 --format=%b # the token",
                "docker exec $(docker ps -q) cat /run/secrets/token",
                "docker create app && cat api.token",
                "docker inspect web | jq -r .id.token",
                "docker run --rm alpine sh -c 'echo $TOKEN | base64 -d'",
                "docker run --rm acme/vault print -d token",
                "openssl rand 32 |sha256sum | head -c 64 # token",
                "sha256sum <(openssl rand 32) | cut -c-64 # token",
            )
        ),
        f"The token (its sha256sum is in the file):\n{HEXADECIMAL}",
    ],
)
def test_what_else_such_commands_print_is_hidden(text: str) -> None:
    """A file of a commit, a setting, what a program prints in its container (A-469)."""
    assert redact_text(text).split("\n")[1:] == ["[redacted: secret-assignment]"]


@pytest.mark.parametrize("column", ["sha256sum", "git log"])
def test_a_column_may_have_the_name_of_such_a_command(column: str) -> None:
    text = f"name,password,{column}\nann,{MIXED},{HEXADECIMAL}"
    assert redact_text(text).split("\n")[1] == "[redacted: named-column]"


@pytest.mark.parametrize("password", ["k7Rt2mQx", "Zk2m#X9vB4", "tR8w-L1nPsq7Kd3f", "QX3mVnY46sHt", "mV5xQcTb0LdR"])
@pytest.mark.parametrize(
    "text",
    [
        "the wifi in the office wants guest / {} as its password",
        'login.fill("ann", "{}")  # user and passphrase of the shop',
        "pw of ann on db1 -> she says {}",
        "Bob: use {} for the shop, the old pass is gone",
    ],
)
def test_a_random_password_is_hidden_in_a_line_that_speaks_of_one(text: str, password: str) -> None:
    """Whatever stands between them (A-458)."""
    assert password not in redact_text(text.format(password))


@pytest.mark.parametrize(
    "text",
    [
        "guess the container type (pass `asn1Spec` to guide it)",
        "The -mem2reg pass, a wrapper around Mem2Reg.h",
        "password must match ^[A-Za-z0-9]{12,64}$",
        "db_password: Refreshing state... [id=arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-Ab3dE7]",
        "Password hash algorithm: PBKDF2WithHmacSHA512/256",
        "password changed at 2025-01-03T10:11:12Z by ann on Debian12 with OpenSSL3",
        "pass k7Rt2mQx or Zk2mX9vB to the encoder",
        "GLboolean glAcquireKeyedMutexWin32EXT (GLuint memory, GLuint64 key, GLuint timeout);",
        "SECStatus PK11_VerifyPW(PK11SlotInfo *slot, char *pw);",
    ],
)
def test_names_versions_and_times_beside_a_word_for_a_password_stay(text: str) -> None:
    """So do several words of which each could be one (A-459)."""
    assert redact_text(text) == text
