"""Links that open what they lead to: webhooks, signed addresses, invitations, resets of passwords, feeds of packages.

Rows are as in `assignments`.
"""

from __future__ import annotations

from typing import Final

from tellback.redaction.values import DOUBT, MIXED_WORD, AnchoredRule

# No id of a record of MongoDB, nor a UUID behind the plural, as in `/api/invitations/…`, which names a resource.
_NO_ID: Final = r"(?![0-9a-f]{24}(?![\w-]))(?!(?<=s/)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-]))"
_RANDOM: Final = rf"{_NO_ID}{MIXED_WORD}{DOUBT}[\w-]{{20,300}}+(?![\w./])"
RULES: Final = (
    AnchoredRule("secret-assignment", "key", r"=(?=[0-9a-f]{32}(?![0-9a-f]))(?:(?<=[?&]key=)|(?<![\w-]key=))"),
    AnchoredRule("secret-assignment", "auth", r"=(?<=[?&]auth=)(?=[a-z_.-]{0,60}+[0-9])[\w.~%+/-]{20}"),
    AnchoredRule("webhook-url", "hook", r"s\.slack\.com/(?:services|workflows|triggers)/[\w/+]{20}"),
    AnchoredRule("webhook-url", "hook", r"s/\d{16,20}/[\w-]{40}"),
    AnchoredRule("webhook-url", "hook", r"s/catch/[0-9]{3,12}/[0-9a-z]{5}"),
    # Teams, Outlook; ids need not be hex. In a URL that another holds, the sign stays encoded.
    AnchoredRule("webhook-url", "hook", r"(?:b2)?/[0-9a-z]{8}-[0-9a-z-]{27}(?:@|%40)"),
    AnchoredRule("webhook-url", "hook", r"/(?:(?<=\.tines\.com/webhook/)|(?<=\.tines\.io/webhook/))[0-9a-z]{20}"),
    AnchoredRule("webhook-url", "sumologic.com/receiver/", r"v1/http/[\w+/=-]{40}"),
    AnchoredRule("signed-url", "/magic", r"(?:-?links?)?/(?:[a-z]{1,12}/)?[\w-]{24}"),
)
# Searched only near a long value with a digit.
NEAR_VALUES: Final = (
    AnchoredRule("webhook-url", "with/key/", r"[\w-]{20}"),
    AnchoredRule("signed-url", "sig=", r"(?<=[?&]sig=)[\w%+/-]{20}"),
    AnchoredRule("secret-assignment", "code=", rf"(?:(?<=[?&]code=)|(?=[\w-]{{20,300}}+&state=)){DOUBT}[\w-]{{20}}"),
    # A password of base64 that is not escaped; no port and path.
    AnchoredRule(
        "url-credentials",
        "://",
        rf"[\w.-]{{0,60}}+:(?![0-9]{{1,5}}/)(?=[0-9a-z+/]{{20}}){MIXED_WORD}{DOUBT}[0-9a-z+/]{{20,100}}+={{0,2}}@[\w\[]",
    ),
    AnchoredRule("secret-assignment", "appid=", r"(?<=[?&]appid=)[0-9a-f]{32}(?![0-9a-f])"),
    AnchoredRule("secret-assignment", "/t/", r"[a-z]{2}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    AnchoredRule("secret-assignment", "/t/", rf"{MIXED_WORD}{DOUBT}[\w-]{{30,80}}+/"),  # of Anaconda
    *(  # sent to one person for one visit
        AnchoredRule(
            "signed-url",
            act,
            rf"[a-z_-]{{0,20}}+(?:/(?:[a-z]{{1,12}}/)?|/?\?(?:[a-z_]{{1,12}}=[\w%.-]{{1,40}}&)?[a-z_]{{1,12}}=){_RANDOM}",
        )
        for act in ("/reset", "/invit", "/confirm", "/verif", "/activat", "/unsubscribe", "/accept", "/join", "/magic")
    ),
)
