"""Secrets given away by the name before them: `key = value` in env, JSON, YAML, XML, make, shell and code, and flags.

A row is a rule's name, the text that each of its matches begins with, and the pattern after that text. Rows with the
same beginning become one scan (`rules`), which a text without it does not need.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from tellback.redaction.alternations import preceded_by, trie
from tellback.redaction.values import (
    AFTER_KEY,
    AFTER_NAME,
    AFTER_PASSWORD,
    AHEAD,
    AHEAD_LONG,
    AHEAD_PASSWORD,
    AHEAD_SIGNED,
    AT_END,
    BELOW,
    CLOSE,
    DOUBT,
    DOUBTFUL,
    IN_BLOCK,
    LETTERS,
    MIXED,
    NAME_GOES_ON,
    NAMES,
    NEXT_IN_BLOCK,
    NEXT_LINE,
    NO_STORED_NAME,
    NO_VALUE,
    NOT_NAMED,
    OPEN,
    PATH,
    PHRASE,
    SEPARATOR,
    SIGNS,
    TYPE,
    AnchoredRule,
    long_value,
)

# What a secret key is called, each in five spellings: `signing_key`, `signing-key`, `signingKey`, `signing key`,
# `signing.key`.
KEYS: Final = (
    *("api", "auth", "access", "private", "signing", "encryption", "account", "shared", "master", "license", "service"),
    *("app", "application", "admin", "client", "consumer", "deploy", "write", "ingest", "insert", "integration"),
    *("routing", "webhook", "storage", "subscription", "hmac", "aes", "cipher", "functions", "instrumentation"),
    *("fernet", "unseal", "origin", "secret", "gossip", "recovery", "smtp", "search", "server", "role", "backup"),
    *("connection", "security", "merchant", "payment", "partner", "management", "wallet", "fastly", "genie"),
)
# Texts in the names of secrets, by the text that a scan searches for.
SECRETS: Final = {
    "secret": ("secret",),
    "token": ("token",),
    "cred": ("credential", "creds"),
    "key": tuple(
        dict.fromkeys(
            (
                *(f"{of}{sign}key" for of in KEYS for sign in ("", "_", "-", " ", ".")),
                *("secret key base", "rest_key", "user_key", "session_key"),
                *("ssh_key", "project_key", "root_key", "host_key"),
            )
        )
    ),
    "auth": ("_auth", "authorization", "redis-auth", "redisauth", "redis auth"),
    "seed": tuple(f"{of}{sign}seed" for of in ("otp", "mfa") for sign in ("", "_", "-", " ", ".")),
    "cookie": ("cookie",),
    "sess": ("phpsessid",),
    "connect": ("connect.sid", "connection_string", "connectionstring"),
    "salt": ("salt",),
    "signature": ("signature",),
    "client": ("client_id", "clientid", "client-id", "client id"),
    "hook": ("webhook",),
    "_dsn": ("_dsn",),
    "_pat": ("_pat",),
    "_pw": ("_pw",),
    "contribsys": ("contribsys__com",),
    "hash": tuple(f"api{sign}hash" for sign in ("", "_", "-", " ", ".")),  # of Telegram
}
# Issuers whose keys have no format of their own. Their name, a separator and a long mixed value count as a key.
ISSUERS: Final = (
    *("adafruit", "adobe", "airtable", "algolia", "alibaba", "aliyun", "asana", "atlassian", "confluence", "jira"),
    *("beamer", "bitbucket", "bittrex", "meraki", "cloudflare", "codecov", "cohere", "coinbase", "confluent"),
    *("contentful", "datadog", "discord", "drone", "dropbox", "etsy", "facebook", "fastly", "finicity", "finnhub"),
    *("flickr", "freshbooks", "gitter", "gocardless", "heroku", "hubspot", "intercom", "jfrog", "artifactory"),
    *("bintray", "kraken", "kucoin", "launchdarkly", "linear", "linkedin", "linked_in", "linked-in", "lob_"),
    *("mailchimp", "mailgun", "mapbox", "mattermost", "messagebird", "message_bird", "message-bird", "mistral"),
    *("netlify", "newrelic", "new_relic", "new-relic", "nytimes", "okta", "openai", "plaid", "privateai"),
    *("private_ai", "private-ai", "rapidapi", "sendbird", "sentry", "snyk", "sonar", "squarespace", "sumo"),
    *("telegram", "travis", "twilio", "twitch", "twitter", "yandex", "zendesk"),
    *("looker", "new-york-times", "new_york_times", "newyorktimes", "xray", "abuseipdb", "accuweather", "adzuna"),
    *("airbrake", "aiven", "alienvault", "amplitude", "anypoint", "apify", "apollo", "assemblyai", "assembly_ai"),
    *("auth0", "autodesk", "aviationstack", "baremetrics", "betterstack", "bitfinex", "bitly", "bitmex"),
    *("blazemeter", "browserstack", "bugsnag", "buildkite", "buttercms", "calendarific", "calendly", "censys"),
    *("chartmogul", "checkly", "circleci", "civo", "clarifai", "clearbit", "clickhouse", "clickup", "clockify"),
    *("cloudant", "cloudconvert", "cloudinary", "cloudmersive", "codacy", "codeclimate", "coinapi", "configcat"),
    *("convertkit", "couchbase", "coveralls", "crowdin", "cryptocompare", "currencylayer", "databento", "data.gov"),
    *("deepai", "deepgram", "delighted", "detectify", "diffbot", "disqus", "dwolla", "edamam", "elasticemail"),
    *("endor", "etherscan", "eventbrite", "everhour", "exoscale", "fal_", "falai", "fixer", "foursquare", "freshdesk"),
    *("fullstory", "geckoboard", "geocodio", "getresponse", "glassnode", "godaddy", "graphhopper", "greptile"),
    *("gumroad", "gyazo", "helpscout", "honeycomb", "hypertrack", "ibmcloud", "ibm_cloud", "iexcloud", "imagekit"),
    *("infomaniak", "infura", "insightly", "intrinio", "ipgeolocation", "ipstack", "jotform", "jumpcloud", "kagi"),
    *("keenio", "kickbox", "klaviyo", "larksuite", "lemlist", "lighton", "locationiq", "loggly", "lokalise"),
    *("mailboxlayer", "mailerlite", "mailersend", "mailjet", "mandrill", "mapquest", "marketstack", "mediastack"),
    *("miro", "mixpanel", "mockaroo", "moralis", "nasdaq", "newsapi", "nexmo", "nylas", "oanda", "ollama", "onelogin"),
    *("onfleet", "opencage", "openweather", "opsgenie", "optimizely", "packagecloud", "pagerduty", "pandadoc"),
    *("pastebin", "paypal", "pdfshift", "pinata", "pipedrive", "pivotaltracker", "pixabay", "planetscale", "plivo"),
    *("poloniex", "polygon", "postmark", "pusher", "rebrandly", "ringcentral", "saucelabs", "scaleway"),
    *("scraperapi", "scrapingbee", "securitytrails", "shodan", "shutterstock", "signalwire", "smartsheet"),
    *("snowflake", "sparkpost", "spoonacular", "spotify", "statuspage", "storyblok", "strava", "swiftype", "taxjar"),
    *("ticketmaster", "tiingo", "todoist", "tomtom", "tradier", "trello", "twelvedata", "unsplash", "upstash"),
    *("upstage", "uptimerobot", "urlscan", "vercel", "virustotal", "vultr", "wandb", "weatherbit", "weatherstack"),
    *("weightsandbiases", "wistia", "wrike", "zenscrape", "zeplin", "zerobounce", "zerotier", "zoho"),
)
# Names that contain these are not secrets: marks of pages, retries, locks and sessions, which an agent needs to go on.
_MARKS: Final = (
    *("next", "client", "page", "continuation", "sync", "forward", "backward", "sequence", "starting", "resume"),
    *("idempotency", "lock", "change", "clientrequest", "client_request", "client-request", "lifecycleaction"),
)
_UNLIKE_MARKS: Final = ("unlock", "exchange")  # secrets whose names end as those of locks and changes do


def _tokens_of(*names: str) -> list[str]:
    return [f"{name}{sign}token" for name in names for sign in ("", "_", "-")]


_NO_MARK: Final = (
    f"(?:{preceded_by(('publickeytoken', 'pulumi.type_token', 'lock token', *_tokens_of(*_MARKS)), unless=True)}"
    f"|{preceded_by(('unlock token', *_tokens_of(*_UNLIKE_MARKS)))})"
)
# `tokenizer: cl100k_base`; `arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf`, a name.
UNLESS: Final = {
    "token": _NO_MARK + "(?!i[sz]er)",
    "secret": NO_STORED_NAME + "(?<![0-9]:secret)(?<![}*]:secret(?=:))(?<!existingsecret)(?<!checksum/secret)"
    r"(?!smanager:)(?!(?<=--secret)[ =](?=[a-z/-]{0,60}?(?:passw|token|secret|key|cred|cert))"
    r"[a-z]{2,20}(?:[_/-][a-z0-9]{1,20}){1,6}(?![\w/.-]))"
    # What Kubernetes says of one by its name, which may end in a hash.
    r"(?![ ](?:[a-z]{2,16}+-){1,5}[0-9a-f]{5,10}(?![\w-])"
    r"|s?[ ][\"'][\w./-]{1,80}[\"'][ ](?:not[ ]found|already[ ]exists|deleted|created|is[ ]forbidden))",
    "signature": "(?![\"']?:[ ]?[\"']?[0-9a-f]{32}(?![0-9a-f]))",  # of a file, in a cache's tag or a compiler's list
    "cookie": r"(?!s?:[ \t](?:_(?:_utm|ga|gid|gcl|fbp)\w{0,20}=(?:[a-z]{2}[0-9]?\.)?+(?:[.$]?[a-z]?[0-9]{1,20}){1,12}|"
    r"(?:max-age|path|domain|expires|samesite)=[^;\n\"'=]{1,60}|secure|httponly|;[ ]?){1,20}+[\"']?[ \t\r]{0,4}$)",
    "_pat": "(?![a-rt-z])",  # `class Vision_PatchEmbed(Vision2_PatchEmbed)`
}
_END: Final = r"""(?=[\\"'`]|[ \t]{0,40}+(?:[,;#&|<})\]]|$)|[ \t])"""
# No word of a translated page, in letters in which nobody types passwords, or in an element of XML.
_QUOTED: Final = r"""(?<=["'`])(?![^\x00-\u058f][^"'`\s\\!-@_~]{3,60}+[!.?]?["'`])[^"'`\s\\]{4,200}+\\?["'`]"""
_IN_ELEMENT: Final = r"(?<=\w>)(?=[^\s<>]{0,60}?[0-9!@#%^&*?+~._-][^\s<>])[^\s<>]{6,200}+</"
# A pass phrase has spaces, so it must end the item. One that speaks of passwords is a label.
_SPACED: Final = r"""(?<=")(?![^"\\\n]{0,100}?passw)[^"\\\n]{4,100}+"[ \t]{0,40}+(?:[,}]|$)"""
_SYMBOLS: Final = r"""(?=[a-z_]{0,60}+[0-9!@#%^&*+?~-])[^\s"'`()\[\]{}<>$,;:/\\=.]{6,200}+[^\s"'`()\[\]{}<>]{0,100}+"""
# A word after a colon at the end of the line, as in YAML. Not one that reports on a password ("password: incorrect").
_REPORTS: Final = (
    *("required", "incorrect", "invalid", "wrong", "missing", "changed", "disabled", "enabled", "expired", "empty"),
    *("default", "failed", "unknown", "accepted", "rejected", "reset", "unset", "redacted", "hidden", "masked"),
    "prompt",
    *("please", "varchar", "char", "boolean", "secretstr", "unicode", "number", "optional", "example", "changeme"),
    *("placeholder", "never", "always", "plain", "plaintext", "encrypted", "hashed", "password", "passwd", "value"),
    *("update", "secretbytes", "attribute", "property", "method", "incomplete"),
)
_WORD_ALONE: Final = rf"(?<=:[ \t])(?=[a-z]{{6,40}}+[ \t]{{0,40}}+$)(?!{trie(_REPORTS)}\b)[a-z]"
_BASE64: Final = r"(?=[a-z0-9]{0,60}+[+/=])(?:[0-9a-z+/]{100}|[0-9a-z+/]{12,100}+={0,2}(?![\w.(\[:/-]))"
# With signs that names of code have too.
_GENERATED: Final = r"(?=[^\s0-9]{0,30}+[0-9])[^\s\"'`()\[\]{}<>$,;:|\\]{8,100}+"
_VALUE: Final = OPEN + NO_VALUE
_NO_ROUTE: Final = (  # of a page; a key of a cache
    r"(?!(?:(?<=index:password:)|(?<=cache:password:))[0-9]{1,12}(?![\w!@#$]))(?!(?<=[\"'])(?:/[a-z_.-]{1,20}/[\w./@-]{0,100}|[a-z_/]{1,60}+(?:(?<=password)|(?<=passwords)"
    r"|(?=#(?:index|show|new|create|edit|update|destroy)[\"']))#[a-z_]{1,30})[\"'])"
)
_PASSWORD: Final = (
    f"{NAME_GOES_ON}{CLOSE}{TYPE}(?:{SEPARATOR}{OPEN}(?=[^\\s:,;]{{4}}){NO_VALUE}{_NO_ROUTE}"
    f"(?:{_QUOTED}|{_IN_ELEMENT}|{_SPACED}|{PHRASE}|(?=[a-z]{{6}})(?:{_WORD_ALONE}|{DOUBT}{LETTERS})"
    f"|{PATH}(?:{_SYMBOLS}{_END}|{DOUBT}{_BASE64}|{DOUBT}{_GENERATED}{_END}|{DOUBT}[a-z][a-z0-9_.-]{{15,100}}+(?![\\w(:=\\[])))"
    "|value=[\"'][^\"'\\s]{4})"
)
# `"PWD": "/srv/app1"`: where a process works.
_NO_FOLDER: Final = (
    r"(?!(?:(?<![\w-]pwd)|(?<=oldpwd))[\"'\]]{0,2}[ \t]{0,4}(?:=>?|:)[ \t]{0,4}"
    r"[\"'`](?:~?/|[a-z]:[\\/])[^\"'`\n]{0,200}[\"'`])"
)
# Only a whole word: in a block, the line holds the value and nothing else.
_ALONE_IN_BLOCK: Final = rf"{IN_BLOCK}{NO_VALUE}{PATH}[^\s\"'<>{{}}]{{4,200}}+[ \t\r]{{0,4}}(?:<|$){AT_END}"
# `pass` is part of words: bypass, compass, passenger, passed, groupAssociation, mapAssets. And Go's tests print
# `--- PASS: TestName`, automake's `PASS: name.sh`.
_PASS_ALONE: Final = (
    preceded_by(
        ("bypass", "compass", "getpass", "askpass", "genpass", "minipass", "multipass", "surpass", "--- pass"),
        unless=True,
    )
    + r"(?!ed|es|ing|iv|age|eng|ion|port|thr|-thr|_thr|lib|py|able|ant"
    r"|back|by|_?arg(?:\.|[ ]==)|_fds|_stmt|_context|ass|emb|ert|et|ign|ist|oci|um)"
    r"(?!:[ \t]{1,4}+[\w.-]{1,60}[ \t]{1,40}+[\w(:])(?![\"'][ ]:[ ][\"']fail)"
    r"(?!:[ \t]{1,4}+[`\"']?(?:test|bench|fuzz|example"
    r"|\S{1,200}[./](?:sh|py|js|ts|c|t|pl|go|rb|test)?\b))"
)
_NO_BRANCH: Final = r"(?<![?][\"'`]pass)"  # `hidden?"password":"text"`
_AHEAD_SIGN: Final = (
    r"(?=(?:_?string)?[\\\"'`\])}]{0,4}+[ \t]{0,80}+[:=>?+|][:=>|\[ \t]{0,40}+[a-z_/.$]{0,60}+[0-9\"'`!@#%^&*+?~-])"
)
_SIGNED: Final = (  # the length first, since most values are too short
    rf"{CLOSE}{TYPE}{SEPARATOR}{OPEN}(?=[^\"'`\s\\]{{12}}){NO_VALUE}{PATH}(?:(?<=[\"'`])(?=[^\"'`\s]{{0,60}}?[0-9])[^\"'`\s\\]{{16,200}}+[\"'`]"
    rf"|{SIGNS}[\w+/.~=%:$-]{{0,30}}+[!@#^*&][\w+/.~=%:!@#^*&$()-]{{11,200}}+"
    # The keys that Django and WordPress generate have brackets too.
    r"|(?=(?:[^\s\"'`!@#^*&]{0,40}+[!@#^*&]){3})[\w+/.~=%:!@#^*&$()-]{40,200}+)"
)
_AHEAD_ENDED: Final = AHEAD.replace(r"[\w.-]{0,40}+", "", 1)  # the name ends here
_LONG: Final = f"(?:{MIXED}{long_value(8)}|{DOUBTFUL})"
_NO_SUM: Final = r"(?!_{0,2}[a-z][^\W_]{1,20}_\w{1,60}+[ ](?:[+*][ ][0-9]|-[ ][0-9]{1,2}[,;)]{0,2}$))"  # `X_NUM - 1`
_SECRET: Final = (
    f"{NAME_GOES_ON}{CLOSE}{TYPE}{SEPARATOR}(?:(?:basic|bearer|token|apikey|digest)[ \\t]{{1,8}}+)?+{_VALUE}{PATH}"
    f"(?![0-9]{{1,6}}:[a-z]|[a-z_-]{{3,20}}+:[0-9-]{{1,12}}+(?![\\w:]))(?![0-9.]{{1,20}}+e[+-]?[0-9]{{1,3}}(?![\\w-]))"
    # What sed replaces by another number; a name with a year, as people give to tokens.
    f"(?![0-9]{{1,9}}/[a-z_-]{{3,40}}+[=:]|(?:[a-z]{{2,12}}+-){{1,3}}20[0-9]{{2}}(?:-[a-z]?[0-9]{{1,2}})?(?![\\w-])){_NO_SUM}{_LONG}"
)
# What only a long, random value follows: an argument (`{key, "…"}` of Erlang), a column of CSV.
_ARGUMENT: Final = f"{NAME_GOES_ON}{CLOSE},[ \\t]?[\"'`]?{NO_VALUE}{PATH}{MIXED}{DOUBT}{long_value(16)}"
_SECRET_BELOW: Final = f"{BELOW}{NO_VALUE}{PATH}(?![\\w./-]{{1,100}}+:[0-9]{{1,6}}:[0-9]{{1,6}}:){_LONG}{AT_END}"


def _secrets() -> tuple[AnchoredRule, ...]:
    """Return the rules of SECRETS: the name, which may be part of a longer one, a separator and a long value."""
    value = f"(?:{AHEAD_LONG}(?:{_SECRET}|{_ARGUMENT})|{NEXT_LINE}{_SECRET_BELOW})"
    guards = {"key": AFTER_KEY, "hash": f"(?:(?<=apihash)|(?<=api.hash)){AFTER_NAME}"}
    return tuple(
        AnchoredRule("secret-assignment", anchor, NAMES + value, guards.get(anchor, AFTER_NAME)) for anchor in SECRETS
    )


@cache  # several rules look for the same names
def names_after(anchor: str) -> str:
    """Return the pattern of what follows an anchor of SECRETS in its names, which also looks at what stands before."""
    ends: dict[str, set[str]] = {}
    for name in SECRETS[anchor]:
        before, _, after = name.partition(anchor)
        ends.setdefault(after, set()).add(before + anchor)
    named = "|".join(
        ("" if begins == {anchor} else preceded_by(begins)) + (trie([after]) if after else "")
        for after, begins in ends.items()
    )
    return UNLESS.get(anchor, "") + f"(?:{named})"


_TOKENS: Final = ("auth_token", "authtoken", "access_token", "accesstoken", "api_token", "apitoken", "api-token")
_KEY_WITH_SIGNS: Final = preceded_by(
    f"{of}{sign}key"
    for of in ("api", "auth", "signing", "encryption", "master", "private")
    for sign in ("_", "-", "", ".", " ")
)
_BEFORE_TOKEN: Final = "".join(sorted({name.removesuffix("token")[-1] for name in _TOKENS}))
_HEADER: Final = r"""[\\"']{0,2}+[ \t]{0,8}+[:=,][ \t]{0,8}+[\\"']{0,2}+"""
_FLAG: Final = r"[a-z0-9-]{2,39}+"  # after its first character
_ENDS_OF_FLAGS: Final = (
    *("token", "secret", "key", "credential", "credentials", "access-key-id", "-pat", "key-base", "-auth"),
)
_AHEAD_FLAG: Final = rf"(?=[a-z0-9]{_FLAG}[ =][\"']?[^\s\"'<>$-][^\s\"'<>]{{3}})"
_VARIABLE: Final = (
    r"(?:(?:ure)?[ ]set)?[ \t]{1,8}+"
    r"[a-z0-9_.-]{0,30}(?:passw|passphrase|_(?:pass|psk|pat)(?![a-z])|token|secret|key|api_hash)"
    r"[a-z0-9_.-]{0,40}+[ \t]{1,8}"
    rf"[\"']?{NO_VALUE}{PATH}(?:{PHRASE}|{_LONG}|{SIGNS}[^\s\"'`|;<>()]{{12}})"
)
_DSN: Final = r"[^\s:@/\"'<>{}$*]"
RULES: Final = (
    # The fixed pattern, then names of passwords, whose values may be words.
    AnchoredRule("password", "pass", "word="),
    AnchoredRule(
        "password",
        "pass",
        f"(?:(?<!/etc/pass){_NO_BRANCH}(?>word|wd|w|phrase|code){_PASSWORD}|{NEXT_IN_BLOCK}(?>w|phrase|code|(?<=[_-]pass)(?![a-z])){_ALONE_IN_BLOCK}"
        f"|(?!w|phrase|code){_PASS_ALONE}{_PASSWORD})",
        AFTER_PASSWORD,
    ),
    AnchoredRule("password", "pwd", f"{_NO_FOLDER}{_PASSWORD}", AHEAD_PASSWORD),
    AnchoredRule("password", "pwd", _ALONE_IN_BLOCK, NEXT_IN_BLOCK),
    AnchoredRule(
        "password",
        "psk",
        f"(?![a-z])(?:(?<![a-z]psk)|(?<=wpapsk)|(?<=wifipsk)|(?<=ipsecpsk)|(?<=ikepsk)){_PASSWORD}",
        AHEAD_PASSWORD,
    ),  # not `topSkill`
    AnchoredRule(
        "password",
        "pw",
        f"(?![a-z]){preceded_by(('_pw', '-pw', 'bindpw', 'userpw', 'adminpw', 'rootpw', 'dbpw'))}{_PASSWORD}",
    ),
    AnchoredRule("password", "community", f"(?<=snmp.community){_PASSWORD}", AHEAD_PASSWORD),
    AnchoredRule("secret-assignment", "erlang", rf".?cookie{CLOSE}{SEPARATOR}{OPEN}[a-z0-9]{{16}}"),
    *(  # the value after a line that ends in a backslash
        AnchoredRule("password", "=\\\n", rf"(?<={name}=\\\n)[ \t]{{0,40}}+[\"']?{NO_VALUE}[^\s\"'<>{{}}]{{4}}{AT_END}")
        for name in ("password", "passwd", "passphrase", "_pass", "secret", "token", "_key")
    ),
    # After a name that ends in "secret", a value needs no digits to count, as after a password's name.
    AnchoredRule(
        "secret-assignment",
        "secret",
        rf"{UNLESS['secret']}(?:_?string)?{CLOSE}{TYPE}{SEPARATOR}{OPEN}(?:0x[0-9a-f]{{40}}\b|{NO_VALUE}"
        rf"(?:{_QUOTED}|{PATH}(?![0-9]{{1,20}}+\b){_SYMBOLS}{_END}))",
        _AHEAD_SIGN,
    ),
    # After names with these ends the value may contain punctuation.
    *(AnchoredRule("secret-assignment", "secret", rf"{key}(?:[_-]?base)?{_SIGNED}") for key in ("key", "[_-]key")),
    AnchoredRule(
        "secret-assignment",
        "token",
        f"{preceded_by(_TOKENS)}{_SIGNED}",
        f"(?<=[{_BEFORE_TOKEN}]token){AHEAD_SIGNED}",  # most words `token` end here
    ),
    AnchoredRule("secret-assignment", "salt", _SIGNED, AHEAD_SIGNED),
    AnchoredRule("secret-assignment", "key", f"{_KEY_WITH_SIGNS}{_SIGNED}", f"(?<=[ignre_. -]key){_AHEAD_ENDED}"),
    *_secrets(),
    # What opens a session, in quotes if it is as long as Bitwarden's. `session_id` and `sessionId` name it, and stay.
    AnchoredRule("secret-assignment", "sess", rf"ion=(?<=_session=)(?:[\"'](?=\S{{40}}))?{MIXED}{long_value(16)}"),
    # The fixed pattern, and what headers carry.
    AnchoredRule("api-key", "api", "[_-]?key="),
    AnchoredRule(
        "bearer",
        "authorization",
        rf"{_HEADER}bearer (?!\$|<|[\"'`]|[{{\[]|\*{{3}}|\.{{3}}|x{{8}}|your"
        r"|[a-z]{2,20}+(?:_[a-z]{2,20}+){1,3}+(?:[\"'\s]|$))",
    ),
    AnchoredRule(
        "basic-auth",
        "authorization",
        rf"{_HEADER}(?:basic|digest|token|negotiate|apikey) (?!your)[^\s\"'<>$*{{][^\s\"'<>]{{3}}",
    ),
    # Flags of commands.
    AnchoredRule(
        "password",
        "--",
        f"[a-z0-9]{_FLAG}{preceded_by(('password', 'passwd', 'passphrase', '-pass', '-pwd', '-psk', '-pw'))}"
        rf"[ =][\"']?+{NO_VALUE}(?!https?://)(?:(?=\S{{0,60}}?[0-9!@#%^&*+?~_\"'])\S|{PHRASE}|{DOUBT}{LETTERS})",
        _AHEAD_FLAG,
    ),
    AnchoredRule(
        "secret-flag",
        "--",
        f"[a-z0-9]{_FLAG}{preceded_by(_ENDS_OF_FLAGS)}{_NO_MARK}"
        rf"[ =][\"']?{NO_VALUE}{PATH}"
        rf"(?:{MIXED}{long_value(8)}|(?=[a-z]{{16}}){DOUBT}{long_value(16)}|{SIGNS}[^\s\"'`|;<>()]{{12}})",
        _AHEAD_FLAG,
    ),
    *(
        AnchoredRule(
            "basic-auth",
            flag,
            r"(?:[ =]{1,3}+|[ ]?\\{1,2}\n[ \t]{0,8}+)[\"']?+(?=[^\s\"'$<>/.-])(?:(?![\d:]{1,20}+\b|(?:https?|wss?)://)[^\s:][^\s:\"'$<>/()\[\]]{0,64}+:|"
            r"(?<=[\"']):(?=[^\s\"'0-9]{0,60}+[0-9]))[\"']?(?!\$|<|:|\*{3})[^\s\"'<>]{3}" + AT_END,
        )
        for flag in (" -u", "--user", "--proxy-user")
    ),
    AnchoredRule("basic-auth", "cred", r"s[ =](?<=-creds.)[\"']?(?!\$|<)[^\s:\"'<>]{1,64}:(?!\$|<|\*{3})[^\s\"'<>]{3}"),
    # URLs and connection strings.
    AnchoredRule(
        "url-credentials",
        "://",
        r"(?:[^\s/:@\"'<>{}$*\[]{0,100}+:(?=[^\s/@\"'<>{}]{2,300}+@)(?!\$|<|\{|%[(s]|\*{3}|\*\*@|x{4}|\.{3}|@|\[|(?:passw(?:or)?d|pass|pwd|redacted)@)[^\s/@\"'<>{}]{2,300}+|[\w-]{20,300}+)@(?!example\.(?:com|org|net))[\w\[]",
    ),
    *(
        AnchoredRule(
            "url-credentials",
            f"@{net}(",  # a lookbehind has one width: one for each length of the password
            f"(?:{'|'.join(rf'(?<=:{_DSN}{{{length}}}@{net}.)' for length in range(3, 41))})",
        )
        for net in ("tcp", "unix")
    ),
    # A variable and its value with only a space between them.
    AnchoredRule(  # no sentence ("Enter your login and password below")
        "password",
        "login",
        r"[ \t]{1,8}+(?!(?:and(?:/or)?|or|using|with|by|via)[ \t]{1,8}+password[ \t]{1,8}+(?!\S{0,40}?[0-9])\S)"
        r"\S{1,100}+[ \t]{1,8}+password[ \t]{1,8}+\S{3}",
    ),
    *(AnchoredRule("secret-assignment", word, _VARIABLE) for word in ("env", "setx", "arg", "config", "set -gx")),
)

# `sentry: release-2024.1.2`, `linear: 2024-01-02`: no value's, and so frequent that the windows leave them out already.
_VERSIONED: Final = "(?![a-z-]{0,20}+[0-9]{1,4}[.-][0-9]{1,4}[.-][0-9])"
# A separator and a value of an issuer: only before such is the name of an issuer searched for. A colon before the first
# digit is no value's (`cache:user:42`), and two slashes begin the name of a host.
_ISSUED_CHARS: Final = r"[\wa-z0-9_+/~%-][\wa-z0-9_+/.~=%:-]{12}"
ISSUED_VALUE: Final = (
    r"""[:=>,|][\\"'`=:>|\[ \t-]{0,40}+"""
    rf"(?={_ISSUED_CHARS})(?=[a-z_+/.~%-]{{0,60}}+[0-9])(?!//)"  # the length first, since most words are too short
    rf"{_VERSIONED}(?:{MIXED}|(?=[0-9]{{15}})){_ISSUED_CHARS}"
)


def issued(issuers: Iterable[str]) -> str:
    """Return the pattern of a value after the name of one of these issuers, which are some of `ISSUERS`."""
    return (
        rf"{trie(issuers)}[\w.-]{{0,40}}+(?:[ \t][\w.-]{{1,20}}+){{0,3}}+{AHEAD_LONG}{NOT_NAMED}"
        r"(?<!release)(?<!trace_id)(?<!span_id)(?<!zone)(?<!zone_id)"  # which an agent needs
        rf"{CLOSE}{TYPE}(?:{SEPARATOR}|[,>][ \t]?){_VALUE}{PATH}{_VERSIONED}"
        rf"(?:{MIXED}{DOUBT}{long_value(13)}|[0-9]{{15,20}}+(?![\w.-]))"
    )
