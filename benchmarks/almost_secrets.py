"""Texts that rules have to look at closely and that hold no secret, over and over: what redaction is slowest at.

Each was written to be as dense in one kind of almost-match as programs make it, or denser.
"""

from __future__ import annotations

from typing import Final

HASH: Final = "9fceb02d0ae598e95dc970b74767f19372d61af8"
UUID: Final = "123e4567-e89b-12d3-a456-426614174000"
ALMOST: Final = {
    # prefixes and forms of tokens
    "access key ids": "AKIA0000 AKIA00000000000 ",
    "json web tokens": "eyJhbGciOiJIUzI1NiJ9 ",
    "short tokens": "xoxz-1234 ghp_short sk-short sk- pk_ live_ test_ key- t- s. v1. pat. sl. dp.pt. hf_ r8_ - _ ~ ",
    "long words with prefixes": "sk_live-aaaaaaaaaaaaaaaaaaaa ghp_aaaa-bbbb-cccc-dddd-eeee test_some_function_name \n",
    "names with underscores": "test_the_password_of_a_user_is_not_shown_in_the_log_of_a_worker_that_fails\n",
    "mixed letters": "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z aB3_dE5-fG7.hI9/jK1+lM3=nO5~pQ7 ",
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ QWxhZGRpbjpvcGVuIHNlc2FtZQ== aGVsbG8gd29ybGQgdGhpcyBpcyBh\n",
    "hashes": f"commit {HASH} cache-key={HASH}\n",
    "uuids": f"id: {UUID} cache_key: {UUID}\n",
    "lock files": f'{{file = "requests-2.31.0-py3-none-any.whl", hash = "sha256:{HASH}{HASH[:24]}"}},\n',
    "keys cut short": "-----BEGIN RSA PRIVATE KE\n",
    # URLs and paths
    "credentials without an end": "://a:b://a:b",
    "urls": "see https://example.org/docs/v2.1/guide/page-12.html?ref=home&lang=en#part-3 and\n",
    "paths": "/usr/lib/python3.11/site-packages/tellback/redaction/rules.py:261: in find_all\n",
    "addresses and times": "2024-01-02T10:42:11.123Z INFO 10.0.0.1:5432:db:user 10.0.0.2:6432:x 127.0.0.1:5433:y\n",
    # names without a value
    "names": "token: secret: password: ",
    "names of passwords and keys": "api_key api-key password passwor authorization:        ",
    "names and equals signs": "secret=key==key==key==key==token==secret==pass==",
    "references": "export STRIPE_KEY=$API_KEY TOKEN=${TOKEN} SECRET_NAME=prod/db PASSWORD_FILE=/run/secrets/pw\n",
    "substitutions": "KEY=$(cat /run/secrets/api_key) TOKEN=`op read op://x` CLIENT_SECRET=${CLIENT_SECRET:-} KEY=\n",
    "types": "def login(password: str, token: Optional[str] = None, api_key: SecretStr = Field(...)) -> Token:\n",
    "code": "self.key = key; cache[key] = keys.get(key, default_key); for key in sorted(keys): print(key)\n",
    "a diff": "-    password = os.environ['DB_PASSWORD']\n+    password = settings.db_password.get_secret_value()\n",
    "camel case": "getUserAccessTokenFromKeyStore(KeyPair, PatToken, apiKeyProvider.fetchSecretValue)\n",
    "packed code": "function(e,t){var n=e.key,r=t.token;return n&&r?n.secret:void 0}var a={key:1,auth:2,pass:3};",
    "json": '{"level":"info","ts":1700000000.123,"key":"cache:user:42","token_count":512,"auth":"none"}\n',
    "escaped json": '{\\"password\\":\\"\\",\\"token\\":null,\\"secret\\":\\"***\\",\\"apiKey\\":\\"$KEY\\"}\n',
    "camel json": '{"accessToken":null,"apiKeyId":"main-key-1","passwordPolicy":{"minLength":12},"authType":"none"}\n',
    "yaml": "password:\n  secretName: db\ntoken:\n  valueFrom:\n    secretKeyRef:\n      name: x\n      key: x\n",
    "xml": "<password></password><token></token><apiKey/><secret>\n</secret><key>name</key><string></string>\n",
    "a table": "| password | token | secret | api_key | value |\n| -------- | ----- | ------ | ------- | ----- |\n",
    "aligned names": "password" + " " * 79 + "token" + " " * 79 + "\n",
    # sentences, issuers, command lines
    "sentences": "the password is wrong, the token was not found, the key is missing and the secret has been removed\n",
    "sentences with numbers": "the token is on page 12 of 3456789012345, the key in drawer_1234567890123: use it\n",
    "sentences with codes": "take build-2024a1b2, the token for job 4f5a6b7c8d9e0f1a2b3c was revoked by u1234567\n",
    "issuers": "github: twilio: openai_ sentry- datadog. heroku okta stripe algolia linear adobe fastly mapbox \n",
    "issuers and versions": "sentry: release-2024.1.2.build.7 datadog=agent-7.50.1-full linear: 2024-01-02T10:42:11Z\n",
    "commands": "mysql -u root -h db; ldapsearch -x -b dc; docker login; sqlcmd -S x; curl -u ; sudo -n ls; echo a\n",
    "flags": "--token --password --secret-name=x --key-file=/etc/k --api-key-env=KEY --auth-token-path=/t --user\n",
    "signs": ":" * 60 + "=:=:=:=> |||| >>>> \n",
    "colours": "\x1b[31mpass\x1b[0m\x1b[32mword\x1b[0m: \x1b[1mtoken\x1b[0m ",
}
