"""Pages that ask for a person in place of an answer."""

from __future__ import annotations

import re
from typing import Final

from tellback.guidance.observations.phrases import challenge_elsewhere, pattern

PAGE: Final = 1_500  # characters that a page shows at most which is no answer
_WIDGET_PAGE: Final = 600
_TAGS: Final = re.compile(r"<[^<>]{1,2000}>")
_HIDDEN: Final = re.compile(r"<(/?)(?:script|style|noscript)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title[^>]{0,200}>([^<]{0,300})</title", re.IGNORECASE)
_CHALLENGE: Final = pattern(
    r"unusual traffic (?:from your|has been|coming)|detected unusual (?:traffic|activity)",
    r"(?:verify|confirm|prove|check(?:ing)?)(?: that| if| whether)? (?:you(?:'re| are)"
    r"|the site connection)(?: not)? ?(?:an? )?"
    r"(?:human|robot|bot|real person|secure)",
    r"complete (?:the|this|a) (?:following )?(?:captcha|challenge|security check|verification)|solve (?:the"
    r"|this) captcha",
    r"(?:enter|type) the characters you see|are you (?:a )?(?:robot|human)\?|i'm not a robot"
    r"|select all (?:squares|images)",
    r"bots use duckduckgo too|automated (?:queries|requests|access).{0,60}your"
    r"|your (?:computer or )?network .{0,40}automated",
    r"enable javascript and cookies to continue|checking your browser before|performance & security by cloudflare",
    r"verifying (?:that )?you are (?:a )?human|press (?:&|and|&amp;) hold|pardon our interruption"
    r"|(?:think|thought|believe) (?:that )?you (?:were|are|might be) an? (?:ro)?bot",
    r"solve this (?:challenge|puzzle)|captcha (?:challenge|detected|encountered)",
    r"you have been blocked.{0,200}security service",
    r"captcha (?:is )?required|please (?:solve|complete|pass) .{0,30}captcha"
    r"|access .{0,40}(?:temporarily )?(?:limited|blocked) .{0,60}captcha",
)
_CHALLENGE_TEXT: Final = pattern(
    r"\W*just a moment\W*$", r"\W*(?:blocked by (?:an? )?|\w+ )captcha\W*(?:challenge|detected|found)?\W*$"
)
_CHALLENGE_TITLE: Final = pattern(
    r"just a moment|attention required|are you a robot|captcha|security check|robot check"
)
_WIDGET: Final = pattern(
    r"g-recaptcha|h-captcha|cf-chl|challenge-platform|cf-turnstile|anomaly-modal|px-captcha|data-sitekey|/sorry/index"
)


def is_challenge(text: str) -> bool:
    """Whether the text is a page that asks for a person: it is short, and says so to its reader."""
    head = text[:200_000] if "<" in text[:2_000] else text[: PAGE + 1]
    visible = visible_text(head)
    if len(visible) > PAGE:
        return False
    if (
        _CHALLENGE.search(visible)
        or _CHALLENGE_TEXT.match(visible)
        or (len(visible) <= _WIDGET_PAGE and challenge_elsewhere(visible))
    ):
        return True
    if head == visible:
        return False
    title = _TITLE.search(head)
    if title is not None and _CHALLENGE_TITLE.search(title.group(1)):
        return True
    return len(visible) <= _WIDGET_PAGE and _WIDGET.search(head) is not None


def visible_text(text: str) -> str:
    """What a browser would show of a page, roughly; a text that is no page as it is."""
    return " ".join(_TAGS.sub(" ", _without_scripts(text)).split()) if re.search(r"<[a-zA-Z!]", text) else text


def _without_scripts(text: str) -> str:
    kept: list[str] = []
    place: int | None = 0  # None: within what is not shown
    for match in _HIDDEN.finditer(text):
        if match.group(1):
            place = match.start()
        elif place is not None:
            kept.append(text[place : match.start()])
            place = None
    return "".join(kept) if place is None else "".join(kept) + text[place:]
