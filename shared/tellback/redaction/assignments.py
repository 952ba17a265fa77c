"""Secrets that their surroundings give away: `key = value` in env, JSON, YAML, shell and code, flags, URLs, webhooks.

The patterns run over text in small letters, where a search for words is several times faster than one that ignores
case. Every repeat is bounded, and those that could give back what they took are possessive, so that each place of the
text costs at most a constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DOUBT: Final = "\0"  # in a pattern: here begins a value that only its capitals tell from a word

# What a name of a secret contains. A name that only speaks of one (`token_count`, `secret_name`) is told by its end.
PASSWORDS: Final = ("passw", "passphrase", "passcode", "pwd", "pass", "psk")
SECRETS: Final = (
    *(
        "secret",
        "token",
        "credential",
        "creds",
        "apikey",
        "api_key",
        "api-key",
        "api.key",
        "api key",
        "_auth",
        "authkey",
    ),
    *("auth_key", "auth-key", "access_key", "accesskey", "access-key", "access key", "private_key", "privatekey"),
    *("private-key", "signing_key", "signing-key", "signingkey", "encryption_key", "encryption-key", "encryptionkey"),
    *("account_key", "accountkey", "account-key", "shared_key", "sharedkey", "sharedaccesskey", "shared-key"),
    *("master_key", "master-key", "masterkey", "license_key", "licensekey", "license-key", "service_key", "app_key"),
    *("app-key", "appkey", "application_key", "admin_key", "client_key", "consumer_key", "consumerkey", "deploy_key"),
    *(
        "deploy-key",
        "write_key",
        "writekey",
        "ingest_key",
        "insert_key",
        "integration_key",
        "routing_key",
        "server_key",
    ),
    *("webhook_key", "storage_key", "subscription-key", "subscription_key", "hmac_key", "aes_key", "cipher_key"),
    *(
        "session_key",
        "sessionid",
        "sessid",
        "connect.sid",
        "session_id",
        "_session",
        "ssh_key",
        "user_key",
        "project_key",
        "root_key",
        "salt",
    ),
    *("signature", "client_id", "clientid", "client-id", "webhook", "connection_string", "connectionstring", "_dsn"),
    *(
        "_pat",
        "rest_key",
        "host_key",
        "functions_key",
        "x-amz-credential",
        "contribsys__com",
        "_pw",
        "instrumentationkey",
        "fernet_key",
        "fernetkey",
        "fastly_key",
        "authorization",
        "cookie",
    ),
)
# Each of SECRETS contains one of these, which are searched for one by one: so few, and short.
SECRET_HAS: Final = (
    *(
        "cre",
        "key",
        "ken",
        "auth",
        "sess",
        "signature",
        "client",
        "connect",
        "ook",
        "salt",
        "_dsn",
        "_pat",
        "_pw",
    ),
    "contribsys",
)
# Issuers whose keys have no form of their own: their name before a separator and a long, mixed value is taken for one.
ISSUERS: Final = (
    *("adafruit", "adobe", "airtable", "algolia", "alibaba", "aliyun", "asana", "atlassian", "confluence", "jira"),
    *("beamer", "bitbucket", "bittrex", "meraki", "cloudflare", "codecov", "cohere", "coinbase", "confluent"),
    *("contentful", "datadog", "discord", "drone", "dropbox", "etsy", "facebook", "fastly", "finicity", "finnhub"),
    *("flickr", "freshbooks", "gitter", "gocardless", "heroku", "hubspot", "intercom", "jfrog", "artifactory"),
    *(
        "bintray",
        "kraken",
        "kucoin",
        "launchdarkly",
        "linear",
        "linkedin",
        "linked_in",
        "linked-in",
        "lob_",
        "mailchimp",
    ),
    *(
        "mailgun",
        "mapbox",
        "mattermost",
        "messagebird",
        "message_bird",
        "message-bird",
        "mistral",
        "netlify",
        "newrelic",
    ),
    *("new_relic", "new-relic", "nytimes", "okta", "openai", "plaid", "privateai", "private_ai", "private-ai"),
    *("rapidapi", "sendbird", "sentry", "snyk", "sonar", "squarespace", "sumo", "telegram", "travis", "twilio"),
    *("twitch", "twitter", "yandex", "zendesk"),
)
_NOT_THE_VALUE: Final = (
    *("name", "names", "path", "file", "url", "uri", "count", "counts", "size", "length", "limit", "type", "version"),
    *("ttl", "expiry", "expires", "age", "header", "field", "prefix", "suffix", "endpoint", "host", "region", "class"),
    *("algorithm", "format", "hash", "digest", "policy", "scope", "scopes", "env", "label", "index", "arn", "rule"),
    *("publickey", "public_key", "budget", "ids", "usage", "mask", "pattern", "regex", "hint", "format", "sha256"),
)
_NOT_NAMED: Final = "".join(f"(?<!{word})" for word in _NOT_THE_VALUE)
# The separator and something behind it are looked for before all that costs more.
_AHEAD: Final = r"""(?=[\\"'`\])}]{0,4}+[ \t]{0,8}+(?:[:=>,|-]|value=)"""
_AHEAD_LONG: Final = (
    _AHEAD + r"""(?:[ \t]?(?:str|string|&str|final)[ \t]*+=)?+[\\"'`=:>| \t-]{0,12}+(?:[fbru@$]{1,2}["'])?+"""
    r"""(?:(?:basic|bearer|token|apikey|digest)[ \t])?+[\w+/~%-][\w+/.~%:=-]{7})"""
)
_TAIL: Final = rf"[\w.-]{{0,40}}+{_AHEAD})"
_LONG_TAIL: Final = rf"[\w.-]{{0,40}}+{_AHEAD_LONG}{_NOT_NAMED}"
_CLOSE: Final = r"""[\\"'`\])}]{0,4}+[ \t]{0,8}+"""
_HEADER: Final = r"""[\\"']{0,2}+[ \t]{0,8}+[:=,][ \t]{0,8}+[\\"']{0,2}+"""
_TYPE: Final = r"(?::[ \t]?(?:str|string|&str|final)[ \t]*+(?==))?+"
_SEPARATOR: Final = (
    r"(?::=|=>|->|={1,3}+>?|:{1,2}+|(?<=[\w\"'])>|\|\||,(?=[ \t]?[\"']))[ \t]{0,8}+(?:[fbru@$]{1,2}(?=[\"']))?+"
)
_OPEN: Final = r"""[\\"'`=]{0,4}+"""
# References, placeholders, calls, masks, versions.
NO_VALUE: Final = (
    r"(?!\$[\w({]|<|[~^v]?[0-9]{1,5}\.[0-9]{1,5}\.[0-9]|\{|%[(\w]|\*{3}|x{4}|\.{3}|\[|(?:null|none|nil|true|false|str|string|text|int|bool|boolean|bytes|required"
    r"|optional|redacted|hidden|any|object|undefined|self|os|env|process|config|settings|getpass|input|values?|secrets|vars)\b"
    r"(?![!@#%^&*+?~-]))"
)
# Two digits and a letter within the first characters: what words of a language or of a program seldom are.
_MIXED: Final = r"(?=[a-z_+/.~=%:-]{0,60}+[0-9][a-z_+/.~=%:-]{0,60}+[0-9])(?=[0-9_+/.~=%:-]{0,60}+[a-z])"
_LONG_AS: Final = r"[\w+/~%-](?:[\w+/.~=%:-]{100}|[\w+/.~=%:-]{MIN,100}+(?![(\[\w]))"  # a name is shorter
_END: Final = r"""(?=[\\"'`]|[ \t]*+(?:[,;#&|<})\]]|$)|[ \t])"""
PATH: Final = r"(?!\.{1,2}/|~/|/[a-z_.-]{1,20}/|[a-z]:\\|https?:|file:)"
_QUOTED: Final = r"""(?<=["'`])[^"'`\s\\]{4,200}+\\?["'`]"""
_PHRASE: Final = r"""(?<=")[^"\\\n]{4,100}+"[ \t]*+(?:[,}]|$)"""  # a pass phrase: only where the key is quoted, too
_SYMBOLS: Final = r"""(?=[a-z]{0,60}+[0-9!@#%^&*+?~_-])[^\s"'`()\[\]{}<>$,;:/\\=.]{6,200}+[^\s"'`()\[\]{}<>]{0,100}+"""
# A word that ends the line behind a colon, as in YAML; not one that tells what became of a password.
_WORD_ALONE: Final = (
    r"(?<=:[ \t])(?!(?:required|incorrect|invalid|wrong|missing|changed|disabled|enabled|expired|empty|default|failed"
    r"|unknown|accepted|rejected|reset|unset|redacted|hidden|masked|prompt|please|varchar|char|boolean|secretstr|unicode|number"
    r"|optional|example|changeme|placeholder|never|always|plain|plaintext|encrypted|hashed|password|passwd|value|update)\b)"
    r"[a-z]{6,40}+[ \t]*+$"
)
_LETTERS: Final = r"[a-z]{8,100}+(?![\w(.:=\[])"  # that only its capitals tell from a word
_BASE64: Final = r"(?=[a-z0-9]{0,60}+[+/=])(?:[0-9a-z+/]{100}|[0-9a-z+/]{12,100}+={0,2}(?![\w.(\[:/-]))"
_VALUE: Final = _OPEN + NO_VALUE
# Words that only begin or end as the name of a password does.
_OTHER_WORDS: Final = (
    "(?<!compass)(?<!bypass)(?<!minipass)(?<!multipass)(?<!surpass)"
    "(?!(?<=pass)(?:ed|es|ing|iv|age|eng|ion|port|thr|-thr|_thr|able|ant|back|by))"
)
_PW: Final = "pw(?![a-z])(?:(?<=[_-]pw)|(?<=bindpw)|(?<=userpw)|(?<=adminpw)|(?<=rootpw)|(?<=dbpw))"
# What only a generated value has: signs that neither names nor paths are made of, and digits.
SIGNS: Final = r"(?=[\w+/.~=%:$-]{0,30}+[!@#^*&])(?=[^\s\"'`0-9]{0,40}+[0-9])"


def long_value(least: int) -> str:
    """A value of at least so many characters, which no call or index follows."""
    return _LONG_AS.replace("MIN", str(least - 1))


def _trie(words: Iterable[str]) -> str:
    """An alternation that looks at each character once."""
    branches: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        branches.setdefault(word[0], []).append(word[1:])
    parts = [_quoted(first) + ("" if "" in rests else _trie(rests)) for first, rests in sorted(branches.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _quoted(character: str) -> str:
    return f"\\{character}" if character in ".^$*+?{}[]\\|()" else character


# Each is one scan: rules as pairs of name and pattern, and what a text has to have in it for any of them to match.
PASSWORD: Final = (
    ("password", "password="),
    (
        "password",
        (
            f"(?:{_trie(PASSWORDS)}{_OTHER_WORDS}|{_PW}){_TAIL}{_NOT_NAMED}{_CLOSE}{_TYPE}(?:{_SEPARATOR}{_VALUE}"
            f"(?:{_QUOTED}|{_PHRASE}|{_WORD_ALONE}|{PATH}{_SYMBOLS}{_END}|{DOUBT}{_LETTERS}|{PATH}{DOUBT}{_BASE64})"
            "|value=[\"'][^\"'\\s]{4})"
        ),
    ),
)
_SIGNED: Final = (
    rf"{_CLOSE}{_TYPE}{_SEPARATOR}{_VALUE}{PATH}(?:(?<=[\"'`])(?=[^\"'`\s]{{0,60}}?[0-9])[^\"'`\s\\]{{16,200}}+[\"'`]"
    rf"|{SIGNS}[\w+/.~=%:!@#^*&$-]{{12,200}}+)"
)
NAMED_SECRET: Final = (
    # A name that ends so is a secret's whatever the value, as a password's is.
    (
        "secret-assignment",
        (
            rf"secret(?=[\\\"'`\])}}]{{0,4}}+[ \t]{{0,8}}+[:=]){_CLOSE}{_TYPE}{_SEPARATOR}{_VALUE}"
            rf"(?:{_QUOTED}|{PATH}(?![0-9]{{1,20}}+\b){_SYMBOLS}{_END})"
        ),
    ),
    ("secret-assignment", rf"secret[_-]?key(?:[_-]?base)?{_SIGNED}"),
)
# As long as such a name ends so, the value may have signs. Each list is a scan: all of it begins with the same letters.
NAMED_TOKEN: Final = (
    (
        "secret-assignment",
        rf"token(?:(?<=auth.token)|(?<=authtoken)|(?<=access.token)|(?<=accesstoken)|(?<=api.token)|(?<=apitoken)){_SIGNED}",
    ),
)
NAMED_KEY: Final = (("secret-assignment", rf"key(?:(?<=api.key)|(?<=apikey)){_SIGNED}"),)
SECRET: Final = (
    (
        "secret-assignment",
        (
            f"{_trie(SECRETS)}{_LONG_TAIL}{_CLOSE}{_TYPE}{_SEPARATOR}"
            f"(?:(?:basic|bearer|token|apikey|digest)[ \\t]{{1,8}}+)?+{_VALUE}{PATH}"
            f"(?![0-9.]{{1,20}}+e[+-]?[0-9]{{1,3}}(?![\\w-]))(?:{_MIXED}{long_value(8)}|{DOUBT}{long_value(12)})"
        ),
    ),
)
ISSUED: Final = (
    (
        "issuer-assignment",
        (
            rf"(?<![a-z]){_trie(ISSUERS)}[\w.-]{{0,40}}+(?:[ \t][\w.-]{{1,20}}+)?+{_AHEAD_LONG}{_NOT_NAMED}"
            rf"{_CLOSE}{_TYPE}{_SEPARATOR}{_VALUE}{PATH}(?:{_MIXED}{long_value(13)}|[0-9]{{15,20}}+(?![\w.-]))"
        ),
    ),
)
FORMS_NEED: Final = ("apikey=", "api_key=", "api-key=", "authorization", "dapi", "4b1d", "cmvmd", "oy2", "hook", "sig=")
FORMS_HAVE_SHORT: Final = ("key=", "authorization")
FORMS_HAVE: Final = (*FORMS_HAVE_SHORT, "dapi", "4b1d", "cmvmd", "oy2", "hook", "sig=")
FORMS: Final = (
    ("api-key", "api[_-]?key="),
    ("bearer", rf"authorization{_HEADER}bearer (?!\$|<|\{{|\*{{3}}|\.{{3}}|your)"),
    ("basic-auth", rf"authorization{_HEADER}(?:basic|digest|token|negotiate|apikey) [^\s\"'<>$*][^\s\"'<>]{{3}}"),
    ("databricks-token", "dapi[0-9a-f]{32}"),
    ("clickhouse-key", "4b1d[0-9a-z]{38}(?![0-9a-z])"),
    ("artifactory-token", "cmvmd[0-9a-z]{50}"),
    ("nuget-key", "oy2[a-z0-9]{43}(?![0-9a-z])"),
    ("webhook-url", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+]{20}"),
    ("webhook-url", r"hooks/\d{16,20}/[\w-]{40}"),
    ("webhook-url", r"webhookb2/[0-9a-f-]{36}@"),
    ("signed-url", r"sig=(?<=[?&]sig=)[\w%+/-]{20}"),
)
# A value of fifteen characters behind a separator: without one, no issuer's name is searched for.
ISSUED_NEED: Final = r"""[:=>,|][\\"'`=> \t]{0,12}+[\w+/~%-][\w+/.~=%:-]{12}"""
FLAGS_NEED: Final = "--[a-z]| -u[ =]|sshpass|redis-cli|mysql"
_FLAG: Final = r"--[a-z0-9-]{3,40}+(?=[ =][\"']?[^\s\"'<>$-][^\s\"'<>]{3})"
FLAGS: Final = (
    (
        "password",
        (
            rf"{_FLAG}(?:(?<=password)|(?<=passwd)|(?<=passphrase)|(?<=-pass)|(?<=-pwd)|(?<=-pw))[ =][\"']?{NO_VALUE}"
            rf"(?:(?=\S{{0,60}}?[0-9!@#%^&*+?~_\"'])\S|{DOUBT}{_LETTERS})"
        ),
    ),
    (
        "secret-flag",
        (
            rf"{_FLAG}(?:(?<=token)|(?<=secret)|(?<=key)|(?<=credential)|(?<=credentials)|(?<=key-id)|(?<=-pat)"
            rf"|(?<=key-base))[ =][\"']?{NO_VALUE}{PATH}(?:{_MIXED}{long_value(8)}|{SIGNS}[^\s\"'`|;<>()]{{12}})"
        ),
    ),
    (
        "basic-auth",
        (
            r"-(?:-user|-proxy-user|u)[ =][\"']?(?![\d:]{1,20}+\b)[^\s:\"'$<>/-][^\s:\"'$<>/]{0,64}"
            r":(?!\$|<|\*{3})[^\s\"'<>]{3}"
        ),
    ),
    ("password", r"sshpass[ ]{1,4}-p ?[^\s$<]{3}"),
    ("password", r"redis-cli[^\n]{0,80}? -a [\"']?[^\s$<\"']{3}"),
    ("password", r"mysql[a-z]{0,10}+[^\n]{0,80}? -p[^\s$<-][^\s]{2}"),
)
PLACES_NEED: Final = ("://", "@tcp(", "@unix(")
PLACES: Final = (
    (
        "url-credentials",
        r"://(?:[^\s/:@\"'<>{}$*]{0,100}:(?!\$|<|\{|%[(s]|\*{3}|x{4}|\.{3}|@)[^\s/@\"'<>{}]{2,300}|[\w-]{20,300})@[\w\[]",
    ),
    ("url-credentials", r":[^\s:@/\"'<>{}$*]{3,100}+@(?:tcp|unix)\("),
)
SPACED_NEED: Final = (
    r"env[ \t]|setx[ \t]|arg[ \t]|login[ \t]|password[ \t]|passwd[ \t]|token[ \t]|secret[ \t]|api[_ -]?key[ \t]"
    r"|(?:_|account|private)key[ \t]|configure set"
)
SPACED_HAVE: Final = ("passw", "token", "secret", "key")
_VARIABLE: Final = (
    r"[ \t]{1,8}+[a-z0-9_]{0,30}(?:passw|token|secret|_key|apikey|writekey|authkey|_pat(?![a-z]))"
    r"[a-z0-9_]{0,40}+[ \t]{1,8}"
    rf"[\"']?{NO_VALUE}{PATH}(?:{_MIXED}{long_value(8)}|{DOUBT}{long_value(12)})"
)
_SPACE: Final = rf"[ \t]{{1,8}}+[\"']?{PATH}(?:{_MIXED}|{DOUBT})(?:[\w+/=-]{{100}}|[\w+/=-]{{16,100}}+(?![\w.(\[]))"
# A word before each, and no group around the words: a scan that knows which characters to stop at is the faster.
SPACED: Final = (
    ("password", r"login[ \t]{1,8}+\S{1,100}+[ \t]{1,8}+password[ \t]{1,8}+\S{3}"),
    *(("secret-assignment", word + _VARIABLE) for word in ("env", "setx", "arg", "configure[ ]set")),
    *(
        ("secret-assignment", word + _SPACE)
        for word in ("password", "passwd", "token", "secret", "api[_-]?key", "_key", "accountkey", "privatekey")
    ),
)
