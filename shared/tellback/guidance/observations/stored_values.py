"""Programs that print a stored value, which may be the text of any error, and what they say of themselves in its place.

Requirement G-367.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.progress.effects import words_in
from tellback.guidance.shell import SimpleCommand

# What `psql` calls an error in languages of its users; notices are labelled alike.
_PSQL_ERRORS: Final = (
    r"ERROR|FATAL|PANIC|FEHLER|ERREUR|ERRORE|FATALE|ERRO|FEL|HATA|CHYBA|B\u0141\u0104D|\u041e\u0428\u0418\u0411\u041a\u0410"
    r"|\u041f\u041e\u041c\u0418\u041b\u041a\u0410|\u9519\u8bef|\u932f\u8aa4|\uc624\ub958"
)
# What a server of Redis says to a command that only reads. It begins each error with a word in capitals.
REDIS_REFUSED: Final = (
    r"(?:ERR (?:wrong number|value is not|min or max|Invalid stream)|WRONGTYPE Operation|NOAUTH Auth|NOPERM "
    r"|LOADING Redis|BUSY Redis|CLUSTERDOWN |MASTERDOWN |MOVED \d|TRYAGAIN |CROSSSLOT Keys|(?:AUTH failed: )?WRONGPASS "
    r"|DENIED Redis)[^\n]{0,300}"
)
_ROWS: Final = r"(?:[^\n]{0,300}\n){0,50}?"  # of what was asked for first

# Programs that print a stored value, which may be the text of any error; the words by which they are asked to; and how
# they begin what they say of themselves.
_VALUES: Final = tuple(
    (words_in(programs), re.compile(asked), re.compile(rf"\s{{0,9}}(?:{own})|[^\n]{{0,80}}: (?:command )?not found$"))
    for programs, asked, own in (
        (
            "kubectl oc",
            r"\bget .* (?:-o|--output)[ =]?(?:jsonpath|go-template)",
            (
                r"(?:(?:[EWI]\d{4} \d\d:|Warning: )[^\n]{1,600}\n){0,20}(?:Error from server|Error: unknown "
                r"|The connection to the server|Unable to (?:connect to the server|use a TTY)|Error in configuration: "
                r"|error: (?:error|unable|unknown|unrecognized|invalid|no|there|couldn't|context|template|the|You|name"
                r"|stat|exec plugin|arguments|a resource|array|Get|Missing|getting|loading|unexpected|Unauthorized)\b)"
                r"|[EF]\d{4} \d\d:|Please enter Username: error: "
            ),
        ),
        ("consul", r"\bkv get\b", r"Error! |Error (?:querying|retrieving|making|connecting|getting) |Failed to init"),
        (
            "vault bao",
            r"-field[ =]",
            (
                r"(?:WARNING! VAULT_ADDR [^\n]{1,200}\n)?(?:Error [a-z]{3,20}ing\b|(?:Get|Put|List) \"?https?:)"
                r"|No value found at |Field \"|Failed to parse K=V|flag provided but not |(?:Too many|Not enough) arg"
                r"|Invalid path for a versioned "
            ),
        ),
        ("terraform tofu", r"\boutput .*-raw\b", r"\u2577\s{1,3}\u2502 \w{5,7}: |Error: [^\n]{1,200}(?=\n\n)"),
        (
            "pulumi",
            r"\b(?:stack output|config get) \w",
            (
                r"error: (?:(?:no|current|could|getting|unknown|invalid|the|configuration|passphrase|incorrect|problem"
                r"|stack|unable|read|failed to (?:decrypt|load|read|open)) |\[|PULUMI_)"
            ),
        ),
        (
            "nix",
            r"\beval .*--raw\b",
            (
                r"(?:warning: [^\n]{1,300}\n){0,9}error:(?:\n| (?:flake|cannot|path|getting|experimental|access to"
                r"|unrecognised)\b|[^\n]{1,300}(?=\n{1,2} +at ))"
            ),
        ),
        ("gcloud", r"--format[ =]value\(", _ROWS + r"ERROR: \(?gcloud|You do not currently have an active account"),
        (
            "docker podman nerdctl",
            r"^(?:\w+ )?inspect .*(?:-f|--format)\b",
            (
                r"(?:Error: )?(?:Error response from daemon|[Nn]o such |template: |inspecting |unable to connect )"
                r"|Cannot connect |error during connect|(?:Got )?permission denied while |[Tt]emplate parsing "
                r"|failed to (?:connect to the docker API|parse template)|unknown (?:shorthand )?flag: "
                rf"|(?:docker: )?[\"']docker (?:\w+ )?inspect[\"'] requires |{_ROWS}Error: [Nn]o such object: "
            ),
        ),
        (
            "aws",
            r"--query .*--output[ =]text|--output[ =]text .*--query",
            (
                r"An error occurred \(|Un(?:able to |known options)|Could not connect |The (?:config profile|SSO|user-)"
                r"|Error (?:when|loading|parsing) |(?:aws: )?error: |usage: |Bad value |Invalid |Parameter validation "
                r"|(?:Connect|Read) timeout |SSL validation |You must specify |Waiter |aws: |Partial credentials found"
                r"|Provided region_name |In function \w|Token has expired "
            ),
        ),
        # The server's label is followed by two spaces; it may follow rows of an earlier statement.
        (
            "psql",
            (
                r"^(?=(?:.* )?-(?:[aAbeEHlnqsStwWxXz]*c|-command))"
                r"(?:.* )?-(?:[abeEHlnqsSwWxXz]*[At]|-(?:tuples-only|no-align)\b)"
            ),
            (
                rf"{_ROWS}(?:(?:{_PSQL_ERRORS}):  |psql: (?!warning: )|psql:[^\n]{{1,300}}:\d+: (?:{_PSQL_ERRORS}):)"
                r"|invalid command \\|server closed the connection "
            ),
        ),
        (
            "kcat kafkacat",
            r"(?:^| )-C\b",
            r"(?:% .{1,99}\n){0,9}%(?: ERROR| Fatal|\d\|)|kcat: |Usage: |Error: (?:-b|file)",
        ),
        (
            "etcdctl",
            r"^(?:-\S+ )*get ",
            (
                r"(?:\{\"level\":[^\n]{1,2000}\n){1,20}Error: |\{\"level\":"
                r"|Error: {1,2}(?:context|etcdserver|unknown|bad|get|client|dial|open|rpc|KeyFile)\b"
            ),
        ),
        (
            "xmllint",
            r"--xpath\b",
            r"XPath |xmlXPath|\S{1,200}:\d+: |\S{1,200} : failed|warning: failed |I/O |Unknown opt",
        ),
        (
            "tmux",
            r"^(?:-\S+ )*(?:capture-pane|capturep|show-buffer|showb)\b",
            (
                r"can't find (?:session|window|pane|client): |no server running on /|error connecting to /"
                r"|no (?:current (?:client|session|target)|buffer)|usage: |lost server|server exited "
            ),
        ),
        (
            "redis-cli valkey-cli keydb-cli",
            (
                r"^(?:-(?:[aDdhinprstuX]|-pass|-user) \S+ |-\S+ )*+(?i:echo|get|getdel|getex|getrange|getset|hget"
                r"|hgetall|hmget|hrandfield|hvals|lindex|lpop|lrange|mget|rpop|smembers|spop|srandmember|sscan|xrange|xread"
                r"|xrevrange|zrange|zrangebyscore|zrevrange)\b"
            ),
            (
                rf"(?:Warning: Using a password with [^\n]{{1,120}}\n)?(?:{REDIS_REFUSED}\s*\Z|\(error\) [^\n]{{1,300}}"
                r"|Could not connect to Redis at |AUTH failed: |Unrecognized option |Error: (?:Server|Connection) )"
            ),
        ),
        (
            "sqlite3",
            r"(?i:\bselect\b)",
            (
                # It stops at the first of its own, below which it may quote the place. Older versions name no step.
                r"(?:Parse|Runtime|SQL) error|sqlite3: |Error: (?:in prepare|near|no such|incomplete|unable|unknown"
                r"|stepping|cannot|database|file|disk|attempt|ambiguous|misuse|unrecognized|wrong number|malformed"
                r"|table|sub-select|SELECTs|row value|(?:UNIQUE|CHECK|NOT NULL|FOREIGN KEY) constraint)\b[^\n]{1,300}"
                r"(?=(?:\n {2}[^\n]{1,300}){0,3}\s*\Z)"
            ),
        ),
        (
            "mysql mariadb",
            r"(?i:\bselect\b)",
            rf"(?:mysql|mariadb): (?!\[Warning\])|{_ROWS}ERROR (?:\d{{4,5}} \(\w{{5}}\)|\d{{4,5}}: )",
        ),
        # The titles of a history: what git says of itself has other words.
        (
            "git",
            r"\b(?:log|show|tag|for-each-ref|rev-list|branch)\b.*%(?:[sBbN]|\((?:subject|contents|body))",
            (
                r"(?:fatal|error): (?:ambiguous argument '|bad (?:default )?(?:revision|object) |not a (?:git|valid) "
                r"|your current branch |un(?:known|recognized) (?:(?:option|switch) [`']|date format |[^\n]{1,40}: )"
                r"|[Ii]nvalid (?:--|object name |revision range |[^\n]{1,40}[:'])|malformed (?:object name|format)"
                r"|detected dubious|cannot c\w+ to '|no such (?:commit|path|ref) |unable to read tree \(?[0-9a-f]"
                r"|path '|option [`']|There is no path |(?:object|index) file |loose object |Could not read [0-9a-f]{7}"
                r"|bad config |[^\n]{1,300} is outside repository )"
            ),
        ),
        ("ps", "", "error: "),  # of processes, whose words may be any
        ("crontab", r"^-l\b", r"no crontab for |crontab: "),
    )
)
_ASKED_WORDS: Final = 40  # and characters of a word: a command has up to 20,000, and the patterns are not linear
_ASKED_CHARS: Final = 80


def own_complaints(command: SimpleCommand) -> re.Pattern[str] | None:
    """Return how a program that is asked for a stored value begins to complain, None for any other command."""
    asked, own = next(((asked, own) for names, asked, own in _VALUES if command.program in names), (None, None))
    line = " ".join(word[:_ASKED_CHARS] for word in (*command.words[:_ASKED_WORDS], command.stdin))
    return own if asked is not None and asked.search(line) else None
