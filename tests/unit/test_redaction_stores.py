"""Secrets in commands of stores and clouds, in sentences that go on, and of issuers that put a name into them."""

from __future__ import annotations

import pytest

from tellback.redaction import redact_text

PASSWORD = "Wq7#kZ2m*Rt9x"
SIGNED = "M6420-f_Cv*HQPkyqQ"
LETTERS = "AZC2AFrvRSCv"
TOKEN = "kT4vR9wLq2ZxB7nHs3Jm"
KEY = "1d6a3972-9696-47d9-8897-e7abbf6af5b1"
HASH = "9b1d3f5a7c2e4b6d8f0a1c3e5b7d9f2a"
LINES = "7d41c09be35f8a26d1740c9be83f5a2671d40c9be83f5a267d41c09be35f8a26"


@pytest.mark.parametrize(
    "text",
    [
        f"az keyvault secret set --vault-name kv --name db --value '{PASSWORD}'",
        f"aws ssm put-parameter --name /prod/COOKIE --type SecureString --value '{PASSWORD}'",
        f"gcloud secrets versions access latest --secret=db\n{PASSWORD}",
        f"security add-generic-password -a anna -s app -w {SIGNED}",
        f"networksetup -setairportnetwork en0 home {PASSWORD}",
        f"echo {PASSWORD} | vercel env add DB production",
        f"secrets:\n  - name: db\n    value: {PASSWORD}",
        f'{{"neo4jAuth": "neo4j/{SIGNED}"}}',
        f"ENV WIFI_PSK {PASSWORD}",
        f"http --auth svc:{LETTERS} GET https://api.example.com",
        f'{{"output": "credentials are svc:{LETTERS}"}}',
        f'{{"output": "db.internal:5432:app:app:{PASSWORD}"}}',
        f"<out>db.internal:5432:app:app:{PASSWORD}</out>",
    ],
)
def test_what_a_store_of_secrets_is_given_or_shows_is_hidden(text: str) -> None:
    shown = redact_text(text)
    assert not [value for value in (PASSWORD, SIGNED, LETTERS) if value in shown]


@pytest.mark.parametrize(
    "text",
    [
        f"the exa api key for staging is {KEY}, please rotate it after the demo",
        f"the snyk token of the box was {KEY}. It is gone",
        f"You can use {TOKEN} as the telegram api hash until Friday.",
        f"telegram_api_hash: {HASH}",
        f"client = TelegramClient('bot', api_id=1234567, api_hash='{HASH}')",
        f"id,owner,api_hash\n1,anna,{HASH}",
        f"openssl rand -hex 32\n{LINES}",
        f"| DAGSTER_CLOUD_API_TOKEN | user:my-org:{HASH} | all |",
        f"dagster_cloud_agent_token,owner\nagent:my-org:{HASH},anna",
        f"see APP_USR-1234567890123456-010203-{HASH}-123456789",
        f"middlewares.a.basicauth.users=anna:$$apr1$$abcdefgh$${TOKEN}",
    ],
)
def test_a_token_is_hidden_in_a_sentence_that_goes_on_and_by_the_name_of_its_issuer(text: str) -> None:
    assert not [value for value in (TOKEN, KEY, HASH, LINES) if value in redact_text(text)]


@pytest.mark.parametrize(
    "text",
    [
        "You can use amber-velvet-canyon-lantern as the ssh passphrase until Friday.",
        "use amber-velvet-canyon-lantern for the vault password",
        '{"output": "the passphrase for the vault: amber-velvet-canyon-lantern"}',
    ],
)
def test_a_pass_phrase_is_hidden_in_a_sentence_and_at_the_end_of_a_text_in_json(text: str) -> None:
    assert "amber-velvet-canyon-lantern" not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        f"api-hash of the build: commit {HASH}",
        "az keyvault secret set --name db --value $DB_PASSWORD",
        "openssl rand -hex 32\nwrites 32 bytes in hexadecimal digits",
        "docker pull neo4j/neo4j-enterprise:5.26-community",
        "the token for this job is issued by build-server-2026a",
        "use cross-validation-with-folds as the baseline of passes",
        "test-2024-01-02-report",
        "secrets:\n  - name: db\n    value: $DB_PASSWORD",
        "src/neo4j/Neo4j5ConnectionTest.java",
        '["neo4j/Neo4j5ConnectionTest.java"]',
        "aws ssm put-parameter --name a --type SecureString --value file://secret.txt",
        "az keyvault secret set --name db --value @file.txt",
        "usage: gh secret set NAME --value STRING",
        "use create-react-native-library for the password field",
        "I'd use argon-two-with-salt when hashing passwords",
    ],
)
def test_references_images_and_sentences_without_a_secret_stay(text: str) -> None:
    assert redact_text(text) == text
