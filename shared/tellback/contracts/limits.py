"""Limits of the wire format: what one message, one field and one list may hold, for all who write or read them.

Types of messages, the client, `tellback hook` and the table in docs/messages.md take them from here. The module imports
nothing, since `tellback hook` must start fast. `_CHARS` are Unicode characters, as JSON Schema counts them, `_BYTES`
are bytes of UTF-8, and a name without either counts items.
"""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
HOOK_ID: Final = "hook-"  # prefix of the event ids of `tellback hook`, whose tool calls have no outcome

MAX_MESSAGE_BYTES: Final = 1 << 20
MAX_FIELD_BYTES: Final = 64 << 10
MAX_CHUNK_BYTES: Final = MAX_MESSAGE_BYTES // 2  # leaves room for the batch's own fields

MAX_SESSION_CHARS: Final = 512
MAX_NAME_CHARS: Final = 256
MAX_STATUS_CHARS: Final = 64
MAX_KIND_CHARS: Final = 64
MAX_CHANGE_NAME_CHARS: Final = 512
MAX_CHANGE_DETAIL_CHARS: Final = 1_000
MAX_FILE_CHARS: Final = 1_024
MAX_CONFIG_BYTES: Final = MAX_FIELD_BYTES
MAX_QUESTION_BYTES: Final = 8 << 10
MAX_ANNOUNCED_BYTES: Final = 16 << 10  # a quarter of the configuration
MAX_PROVIDERS: Final = 32
MAX_OFFERS: Final = 8

MAX_ARGV_BYTES: Final = 64 << 10  # because Redis stores them with the job
MAX_COMMAND_NOTE_CHARS: Final = 1_000
MAX_COMMAND_ID_CHARS: Final = 200
MAX_INPUTS: Final = 100
MAX_SECRET_NAMES: Final = 100
MAX_PATH_BYTES: Final = 4_096  # PATH_MAX of Linux, which no longer path can pass

MAX_ID_CHARS: Final = 512
MAX_TRACEPARENT_CHARS: Final = 128  # 55 in W3C's version 00; later ones may be longer
MAX_BATCH_SIGNALS: Final = 500
MAX_CANDIDATES: Final = 1_000

MAX_REFERENCE_BYTES: Final = 512
MAX_ATTACHMENT_BYTES: Final = 2_048
MAX_ATTACHMENTS: Final = 32
MAX_CODE_CHARS: Final = 200
MAX_ERROR_CHARS: Final = 300
MAX_FAILURES: Final = 20
MAX_MESSAGES: Final = 8

MEANINGS: Final = {
    "MAX_MESSAGE_BYTES": "one entry, as JSON; a longer one becomes a dead letter",
    "MAX_FIELD_BYTES": "one long text: parameters, result or error of a call, query, fact, remark, response, voice",
    "MAX_CHUNK_BYTES": "the texts of one batch of signals, as the client splits them",
    "MAX_SESSION_CHARS": "name of a session",
    "MAX_NAME_CHARS": "name of a prompt, an evaluation or a tool; id of a call",
    "MAX_STATUS_CHARS": "status of a call",
    "MAX_KIND_CHARS": "kind of a change or a suggestion; finish reason of a response; role of a message",
    "MAX_CHANGE_NAME_CHARS": "name in a change",
    "MAX_CHANGE_DETAIL_CHARS": "detail of a change",
    "MAX_FILE_CHARS": "name of a file in a trigger",
    "MAX_CONFIG_BYTES": "providers, tools and question of an evaluation together",
    "MAX_QUESTION_BYTES": "question of an evaluation",
    "MAX_ANNOUNCED_BYTES": "names of the tools of an evaluation",
    "MAX_PROVIDERS": "providers of an evaluation",
    "MAX_OFFERS": "suggestions of one observation",
    "MAX_ARGV_BYTES": "arguments of a command; its environment has the same limit",
    "MAX_COMMAND_NOTE_CHARS": "note of a command",
    "MAX_COMMAND_ID_CHARS": "id of a command",
    "MAX_INPUTS": "commands that a command names as its inputs",
    "MAX_SECRET_NAMES": "secrets that a command asks for, each with a name of at most `MAX_NAME_CHARS`",
    "MAX_PATH_BYTES": "directory of a command",
    "MAX_ID_CHARS": "id of an event, a fact or a signal; name of a bank",
    "MAX_TRACEPARENT_CHARS": "trace context of an event",
    "MAX_BATCH_SIGNALS": "signals of one batch",
    "MAX_CANDIDATES": "candidates of one recall",
    "MAX_REFERENCE_BYTES": "channel, conversation, message id, session, host or language of a turn",
    "MAX_ATTACHMENT_BYTES": "one attachment, which is a reference",
    "MAX_ATTACHMENTS": "attachments of one response",
    "MAX_CODE_CHARS": "code of a failure; name of a system or an error",
    "MAX_ERROR_CHARS": "message of an error",
    "MAX_FAILURES": "failures of systems that a turn keeps",
    "MAX_MESSAGES": "messages that go with a finished turn",
}
"""The meaning of each limit; docs/messages.md shows it as a table."""
