"""Passwords on command lines, by the program that accepts them there. Rows are as in `assignments`."""

from __future__ import annotations

from typing import Final

from tellback.redaction.alternations import preceded_by
from tellback.redaction.values import AT_END, DOUBT, GIVEN, MIXED_WORD, AnchoredRule

_P: Final = r"[ =][\"']?(?!\$|<|[\d.:]{1,40}(?:/[a-z]{3})?(?!\w))(?=[^\s0-9]{0,60}+[0-9])[^\s\"'$<-][^\s\"'/]{5}"
_SOURCE_AND_USER: Final = r"(?:-[a-z0-9]{1,3}[ ]){0,4}(?:[\w.@\\][\w.@\\-]{0,63}[ ]){2}"  # of ODBC
_OF_ROUTERS: Final = rf"(?:level[ ][0-9]{{1,2}}[ ])?(?:[0-9][ ])?(?=\S{{8,100}}[ \t\r]{{0,4}}$){MIXED_WORD}"
_STORES, _PARTS = ("", "src", "dest"), ("store", "key")  # of options of keytool: `-srcstorepass`
# A program, and its options up to the password: the last of them in the line, since `re` goes back over characters to a
# fixed text six times as fast as it looks for one after each.
_BEFORE_PASSWORD: Final = (
    ("sqlcmd ", r"[^\n]{0,120}-p[ ]?"),
    ("bcp ", r"\S{1,100}[ ](?:in|out|queryout|format)[ ][^\n]{0,120}[ ]-p[ ]?"),
    ("rar ", r"(?<![a-mo-tv-z_-]rar )(?:[axelptmvr][ ])(?:-[\w=-]{1,20}[ ]){0,4}-(?:hp|p)"),
    ("sudo ", r"[^\n]{0,60}?-s[^\n]{0,60}?<<<[ ]?"),
    *((program, r"[^\n]{0,120}?<<<[ ]?") for program in ("cryptsetup ", "kinit ", "password-stdin")),
    ("wifi.begin(", r"[\"'][^\"'\n]{1,64}[\"'],[ ]?(?=[\"'])"),
    ("freerdp", r"[^\n]{0,160}?[ ]/p:"),
    ("user ", r"(?<=net user )(?!/)[\w.-]{1,64}[ ](?!/)"),
    # Behind the -s of a key that signs, -n has names.
    ("key", r"gen[ ](?<=ssh-keygen )(?:[^\n]{0,120}?[ ]?-p|(?!(?:[^\n;&|\"']{0,120}[ ])?-s[ ])[^\n]{0,120}?[ ]?-n)[ ]"),
    ("mosquitto_", r"[ps]ub[ ][^\n]{0,160}[ ]-p[ ]"),
    ("user ", r"(?<=ctl add_user )[\w.-]{1,64}[ ]"),
    ("pass", r"word[ ](?<=change_password )[\w.-]{1,64}[ ]"),
    (" -u", rf"[ ][\w.-]{{1,64}}[,%]{MIXED_WORD}"),
    (" -u", r"[\"']?(?![0-9])[^\s:\"'/$<=()\[\]-]{1,64}:(?!/)"),
    (" -a ", r"(?<=http -a )[\"']?[^\s:\"'/$<]{1,64}:"),
    ("net use", r"[^\n]{0,60}?\\[^\s]{1,80}[ ]"),
    ("ipmitool ", r"[^\n]{0,160}[ ]-p[ ]"),
    ("snmp", r"[a-z]{1,12}[ ][^\n]{0,160}[ ]-[acx][ ](?!sha|md5|aes|des|public\b|private\b)"),
    ("pass", r"phrase[ ](?<=wpa_passphrase )(?:\"[^\"\n]{1,32}\"|\S{1,32})[ ]"),
    ("psk", r"[ ]ascii[ ][0-9][ ]"),
    ("pass", r"wd[ ](?<=[ ]-passwd[ ])"),
    ("login", "[ ](?<=cargo login[ ])(?=[0-9a-z]{24})"),
    ("pw", r"[ ](?<=rootpw[ ])(?:--[a-z]{1,12}[ ]){0,2}(?!--)"),
    ("pw", r"[ ](?<=[ ]-pw[ ])"),
    ("key", r"chain[ ]-p[ ](?<=keychain -p )"),
    (
        "auth",
        r"[ ](?:init -t[ ]|(?<=snyk auth )|(?:(?<=[ ]-auth )|(?<=http --auth )|(?<=stats auth ))[\w.-]{1,64}:)",
    ),
    ("pass", r"[ ](?<=authinfo pass )"),
    ("user ", rf"[\"']?[\w.-]{{1,64}}[\"']?[ ]using[ ][\"']?{MIXED_WORD}{DOUBT}"),
    ("user ", r"(?<=admin user )add[ ][\w.-]{1,40}[ ]\S{1,64}[ ]"),
    (".logon ", r"[\w.-]{1,40}/[\w.-]{1,64},"),
    # What replaces the name of a password in a file.
    (
        "sed ",
        r"[^\n]{0,120}?s[/|#][^\n/|#]{0,40}?(?:passw|secret|token|_key|pwd)[^\n/|#]{0,20}[/|#](?=[^\s/|#]{8,80}[/|#])"
        + MIXED_WORD
        + DOUBT,
    ),
    ("pass", r"wd[ ](?<=openssl passwd )-[0-9a-z]{1,6}[ ]"),
    ("create secret ", r"generic[ ][^\n]{0,200}?--from-literal[ =][\"']?[\w.-]{1,64}="),
    ("user ", r"(?<=register_new_matrix_user )[^\n]{0,160}[ ]-p[ ]"),
    (
        "radtest ",
        r"(?:-[a-z][ ](?:[a-z]{3,10}[ ])?){0,4}[\w.@\\-]{1,64}[ ](?=\S{1,100}[ ][\w.:\[\]-]{1,100}[ ][0-9]{1,5}[ ]\S)",
    ),
    *((program, rf"(?<![\w-]{program}){_SOURCE_AND_USER}[\"']?{MIXED_WORD}{DOUBT}") for program in ("isql ", "iusql ")),
    # Of routers and switches; in prose the line goes on.
    ("enable ", rf"(?:secret|password)[ ]{_OF_ROUTERS}"),
    (
        "username ",
        rf"(?!and|or|with)[\w.-]{{1,64}}[ ](?:privilege[ ][0-9]{{1,2}}[ ])?(?:secret|password)[ ]{_OF_ROUTERS}",
    ),
    ("basicauth ", rf"/\S{{0,60}}[ ][\w.@-]{{1,64}}[ ]{MIXED_WORD}{DOUBT}"),
)
# Of these `-p` asks for a password, and a database follows, or `-u` names no user.
_NO_LOGIN: Final = preceded_by(
    (f"{program} -u" for program in ("mysql", "mariadb", "dump", "mysqladmin", "python", "python3")), unless=True
)
_NO_NAME: Final = r"(?![a-z][a-z0-9]{0,30}+(?:[_-][a-z0-9]{1,30}+){1,6}+(?:[\s\"']|$))"
_ALONE: Final = r"(?=[^\s:/.,=\"']{8,60}+(?:[\"']|$|\s(?![<>]|-e[ ])))"
# A random word; one with a number, if it is neither a path, a port of a container nor a name of parts, and nothing is
# read into or from the program, as into a database.
_BEHIND_USER: Final = (
    rf"[ ]\S{{1,64}}+[ ]-p[ ]?[\"']?{DOUBT}",
    rf"{_NO_LOGIN}[ ]\S{{1,64}}+[ ]-p[ ][\"']?+{_NO_NAME}{_ALONE}{MIXED_WORD}",
)
# What is piped into a program that reads a password, or given to it as a text.
_READERS: Final = (
    r"(?:[^\n|]{1,80}?--(?:passw(?:or)?d|pass(?:phrase)?|with|secret)-?(?:on-)?(?:stdin|fd|token)"
    r"|sudo[ ][^\n]{0,20}?-(?:[kn]?s|-stdin)\b"
    r"|(?:sudo[ ])?(?:passwd[ ]--stdin|cryptsetup[ ]|kinit[ ]|smbpasswd[ ]|zfs[ ]load-key))"
)
_PIPED: Final = (
    r"(?:-ne?[ ])?(?:[\"']?%s(?:\\n)?[\"']?[ ])?[\"']?(?!\$|<)[^\s\"'$|]{4,200}[\"']?[ ]{0,3}\|[ ]{0,3}"
    f"{_READERS}"
)
_RANDOM: Final = rf"[\"']?{MIXED_WORD}{DOUBT}[\w!@#%^&*+~?=-]{{8,40}}+(?=[\"']?(?:\s|$))"
RULES: Final = (
    *(AnchoredRule("password", program, f"{before}{GIVEN}") for program, before in _BEFORE_PASSWORD),
    *(AnchoredRule("password", " -u", f"{before}{GIVEN}", r"(?=[ ]\S{1,64}+[ ]-p)") for before in _BEHIND_USER),
    AnchoredRule("password", "<<<", rf"[ ]?{GIVEN}[ ]{_READERS}"),
    *(AnchoredRule("password", printer, _PIPED) for printer in ("echo ", "printf ")),
    AnchoredRule("password", "pass", r"[ ](?<=sshpass[ ])[ ]{0,3}-p ?[^\s$<]{3}"),
    # Of any program, if it is random and neither a path nor a port.
    AnchoredRule("password", " -p", rf"[ =]?{_RANDOM}"),
    AnchoredRule("password", "vsql ", rf"[^\n]{{0,120}}?[ ]-w[ ]?{_RANDOM}"),
    # A token for a user.
    AnchoredRule(
        "password",
        "ssh ",
        rf"(?:-\S{{1,20}}+[ ](?:[^\s@-][^\s@]{{0,40}}+[ ])?+){{0,4}}+{MIXED_WORD}{DOUBT}[0-9a-z]{{20,60}}+@",
    ),
    AnchoredRule("password", "redis-cli", r"[^\n]{0,80} -a [\"']?[^\s$<\"']{3}"),
    AnchoredRule("password", "mysql", r"[a-z]{0,10}+[^\n]{0,80} -p(?![\"']?[$<-])[^\s]{3}"),
    *(
        AnchoredRule("password", word, rf"{more}\b[^\n]{{0,120}}[ ]-p{_P}")
        for word, more in (("login", ""), ("mongo", "[a-z]{0,8}"), ("twine upload", ""))
    ),
    AnchoredRule("password", "zip ", rf"[^\n]{{0,80}}-p{_P}"),
    AnchoredRule("password", "7z", r"[a-z]?[ ][^\n]{0,80}[ ][\"']?-p[\"']?(?!\$|<)[^\s\"'<-][^\s\"']{3}"),
    AnchoredRule("password", "sqlplus", r"[ ][^\n]{0,40}?[\w.-]{1,40}/[\"']?(?!\$|<|/)[^\s@\"'/]{3,60}[\"']?@"),
    AnchoredRule("password", "echo ", r"[\"']?[^\s:$]{1,64}:(?!\$|<)[^\s]{4,100}[ ]\|[ ](?:sudo[ ])?chpasswd"),
    AnchoredRule(
        "password",
        "ldap",
        r"(?:search|modify|add|delete|whoami|passwd)[ ][^\n]{0,160}[ ]-w[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{3}",
    ),
    AnchoredRule(
        "password",
        "pass",
        r"[ =](?<=[ey]pass.)"
        rf"{preceded_by(f'-{of}{what}pass{sign}' for of in _STORES for what in _PARTS for sign in ' =')}"
        r"[\"']?(?!\$|<|env:|file:)[^\s\"'-][^\s\"']{3}",
    ),
    AnchoredRule("password", "pass", r":(?<=[ ]pass:)(?!\$|<)[^\s\"']{4}"),
    AnchoredRule("password", "openssl enc", r"[^\n]{0,120}[ ]-k[ ][\"']?(?!\$|<)[^\s\"'-][^\s\"']{5}"),
    AnchoredRule("password", "smbclient", r"[ ][^\n]{0,120}[ ]-u[ ][^\s%]{1,64}%(?!\$|<)\S{4}"),
    AnchoredRule(
        "password",
        "pass",
        r"wd[ ](?<=htpasswd[ ])(?:-[a-z][ ])?-[a-z]{0,5}b[a-z]{0,5}[ ](?:-[a-z][ ])?"
        r"\S{1,100}[ ](?:\S{1,64}[ ])?[\"']?(?!\$|<|/|[\w.-]{1,64}[ ])\S{4}",
    ),
    AnchoredRule("password", "snmp", rf"-server[ ]community[ ]{GIVEN}[ ](?:ro|rw)\b"),
    # Of OpenWrt, as `uci` sets and shows it.
    AnchoredRule(
        "password", "wireless.", r"[\w@\[\]-]{1,40}\.(?:key[1-4]?|sae_password|auth_secret)=[\"']?(?!\$|<)[^\s\"'<>]{5}"
    ),
    AnchoredRule("url-credentials", ":pserver:", rf"[^\s:@]{{1,64}}:{MIXED_WORD}[^\s:@/]{{4,64}}@"),  # of CVS
    # What `pveum` prints of a new token.
    AnchoredRule(
        "secret-assignment",
        "full-tokenid",
        r"[^\w\n]{1,12}[\w.-]{1,64}+@[\w.-]{1,32}+![\w.-]{1,64}+[^v]{1,320}+(?:v(?!alue\b)[^v]{0,200}+){0,4}+"
        r"value\b[^\w\n]{1,20}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}" + AT_END,
    ),
    # Runners of GitHub.
    AnchoredRule("secret-flag", "--", r"token[ =](?=[a-z]{0,28}[0-9])[0-9a-z]{29}(?![\w-])"),
)
