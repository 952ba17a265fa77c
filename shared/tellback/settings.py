"""Every setting, read from `TELLBACK_*` environment variables; the docs' table is generated from here."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from tellback.connection_file import find_running
from tellback.errors import ConfigurationError, InvalidInput
from tellback.names import RECORD_FILE, check_team

if TYPE_CHECKING:
    from tellback.turns.words import Words

PREFIX: Final = "TELLBACK_"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process of Tellback can be told. Durations are seconds unless the description says otherwise."""

    redis_url: Annotated[
        str, Meta(description="Redis that holds the state; unset: that of a running `tellback up`, if there is one.")
    ] = "redis://127.0.0.1:6379/0"
    broker_url: Annotated[
        str, Meta(description="Redis that Celery uses as broker; empty: the same as `redis_url`.")
    ] = ""
    team: Annotated[str, Meta(description="The team whose state this process uses: `[a-z0-9-]+`.")] = "default"
    teams: Annotated[
        str, Meta(description="Teams that workers and beat serve, separated by commas; empty: `team` alone.")
    ] = ""
    shards: Annotated[
        int, Meta(ge=1, le=1024, description="Shards of a team's state; fixed when the team is first used.")
    ] = 4
    host: Annotated[str, Meta(description="This host's name; empty: what the system says.")] = ""
    data_dir: Annotated[str, Meta(description="Spool and local files; empty: the user's data directory.")] = ""
    publish_linger: Annotated[float, Meta(ge=0, description="Longest time a fact waits for company.")] = 0.005
    publish_batch: Annotated[int, Meta(ge=1, le=10_000, description="Facts sent in one round trip.")] = 200
    intake_max: Annotated[
        int, Meta(ge=1, description="Length of an intake stream above which hosts spool to disk.")
    ] = 100_000
    spool_max_bytes: Annotated[int, Meta(ge=4096, description="Cap of the disk spool, in bytes.")] = 256 << 20
    drain_batch: Annotated[int, Meta(ge=1, le=2_000, description="Entries that a drain reads at once.")] = 500
    drain_lease: Annotated[float, Meta(gt=0, description="Lease of a drainer; half of it is spent draining.")] = 5.0
    standby: Annotated[
        float,
        Meta(
            ge=0,
            description="Time that one process of a worker stays with drained streams of tool events for what comes "
            "next, if nothing else needs it; 0: none.",
        ),
    ] = 0.5
    embed_lease: Annotated[
        float, Meta(gt=0, description="Lease of a drainer that embeds texts (signals, recalls).")
    ] = 30.0
    embed_linger: Annotated[
        float, Meta(ge=0, le=1, description="Longest time a text waits for others to be embedded with it.")
    ] = 0.005
    model_patience: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time that signals and facts of a bank wait in the stream for a worker with the bank's model, "
            "before they are dead letters.",
        ),
    ] = 600.0
    beat_period: Annotated[float, Meta(gt=0, description="Period of beat's sweeps (rings, turns, lost jobs).")] = 2.0
    job_lease: Annotated[float, Meta(gt=0, description="Lease of a running command, renewed by its worker.")] = 10.0
    host_patience: Annotated[
        float,
        Meta(
            ge=0,
            le=3_600,
            description="Time that commands for a host without a worker wait for one, before a record says so.",
        ),
    ] = 30.0
    command_grace: Annotated[
        float, Meta(ge=0, description="Time between TERM and KILL, and for what a command left in the background.")
    ] = 5.0
    command_roots: Annotated[
        str, Meta(description="Directories that commands may run in, separated by `:`; empty: the worker's own.")
    ] = ""
    command_policy: Annotated[
        str, Meta(description="TOML file that says what commands may do on this worker's host; empty: none.")
    ] = ""
    command_cgroup: Annotated[
        str,
        Meta(
            description="Directory of cgroup v2 in which limited commands get groups of their own; empty: the worker's "
            "own, where it is delegated; `off`: none."
        ),
    ] = ""
    command_secret_env: Annotated[
        str, Meta(description="Variables of the worker's environment that `secret_env` may name, separated by commas.")
    ] = ""
    record_file: Annotated[
        str,
        Meta(
            description="Where this host's workers append records; empty: `feedback_record.jsonl` in the data "
            "directory; `none`: nowhere."
        ),
    ] = ""
    redaction_rules: Annotated[
        str, Meta(description="TOML file with rules that this process redacts by, beside its own; empty: none.")
    ] = ""
    provider_timeout: Annotated[float, Meta(gt=0, description="Longest time of one custom provider's call.")] = 0.25
    feedback_patience: Annotated[
        float, Meta(gt=0, le=10, description="Longest time that `prompt.feedback` waits for one reply of Redis.")
    ] = 0.1
    hook_wait: Annotated[
        float, Meta(gt=0, le=10, description="Longest time that one `tellback hook` process spends on Redis.")
    ] = 0.05
    hook_config: Annotated[
        str, Meta(description="TOML file with the providers that `tellback hook` asks for; empty: its own.")
    ] = ""
    tool_cooldown: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="Time for which a tool that refused, and did not say for how long, is no alternative for any "
            "agent of the team; doubles with each further refusal, to ten minutes.",
        ),
    ] = 30.0
    providers: Annotated[
        str, Meta(description="Custom providers of the workers, `module:Class` separated by commas.")
    ] = ""
    guidance_idle: Annotated[
        float,
        Meta(
            gt=0,
            le=604_800,
            description="Time without an event after which time triggers nothing more in an evaluation.",
        ),
    ] = 3_600.0
    observation_language: Annotated[
        str, Meta(description="Language of observations of tool calls: en, de or ru; a prompt may say another.")
    ] = "en"
    observation_templates: Annotated[
        str, Meta(description="TOML file with templates of your own for observations; empty: ours.")
    ] = ""
    turn_limit: Annotated[
        float, Meta(gt=0, le=86_400, description="Longest time a user may wait for a turn's answer, progress included.")
    ] = 3_600.0
    finish_grace: Annotated[
        float,
        Meta(gt=0, le=600, description="Time an answer may be on its way to the workers before the sweep answers."),
    ] = 10.0
    late_within: Annotated[
        float,
        Meta(
            ge=0,
            le=604_800,
            description="Time after a fallback in which an answer that comes late is still sent; after it the answer "
            "is stale, and only kept in the history. 0: no late answer is sent.",
        ),
    ] = 3_600.0
    channel_late_within: Annotated[
        str, Meta(description="The same for channels of their own, in seconds: `web=0,telegram=86400`.")
    ] = ""
    sweep_batch: Annotated[int, Meta(ge=1, le=10_000, description="Overdue turns that one sweep takes.")] = 500
    outbox_lease: Annotated[
        float, Meta(gt=0, le=86_400, description="Time a transport has to settle a delivery before it returns.")
    ] = 60.0
    outbox_attempts: Annotated[int, Meta(ge=1, le=1_000, description="Attempts before a delivery is dead.")] = 8
    outbox_retry: Annotated[
        float, Meta(gt=0, le=300, description="Wait before the second attempt; doubles with each, to five minutes.")
    ] = 1.0
    outbox_hold: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Time an ambiguous delivery holds its conversation before it is final."),
    ] = 30.0
    channels: Annotated[
        str,
        Meta(
            description="Channels that have transports, separated by commas: what is to go elsewhere is dead at once, "
            "and workers say so; empty: any channel may have one, and deliveries wait for it."
        ),
    ] = ""
    fallback_language: Annotated[str, Meta(description="Language of fallbacks where nothing else says one.")] = "en"
    channel_languages: Annotated[
        str,
        Meta(
            description="Languages of channels, for turns that name none: `telegram=ru,web=de`, or a TOML file with a "
            "table `channels`."
        ),
    ] = ""
    catalogs: Annotated[
        str,
        Meta(
            description="Directory with gettext catalogs of your own, LANGUAGE/LC_MESSAGES/tellback.po or .mo; they "
            "come before ours."
        ),
    ] = ""
    systems: Annotated[
        str, Meta(description="Systems of the workers' turn pipeline, `module:Class` separated by commas.")
    ] = ""
    system_timeout: Annotated[
        float, Meta(gt=0, le=10, description="Longest time of one custom system's step in a worker.")
    ] = 0.5
    interpret_errors: Annotated[
        bool, Meta(description="Whether users are told what kind of thing went wrong, where it is known.")
    ] = False
    voice_channels: Annotated[
        str,
        Meta(description="Channels where a voice message is answered by voice too, separated by commas; `*`: all."),
    ] = ""
    model: Annotated[
        str,
        Meta(
            description="Embedding model: a folder, or a name on the Hugging Face hub; empty: the packaged "
            "all-MiniLM-L6-v2."
        ),
    ] = ""
    model_revision: Annotated[
        str, Meta(description="Commit of a model of the hub, 40 hex digits; such a model needs one.")
    ] = ""
    model_sha256: Annotated[
        str,
        Meta(
            description="SHA-256 of each of the model's files of weights, separated by commas, checked before they are "
            "read; empty: only those of the packaged model are."
        ),
    ] = ""
    device: Annotated[
        str,
        Meta(
            pattern=r"^([a-z]+(:[0-9]+)?)?$",
            description="Where the model computes: `cpu`, `cuda`, `cuda:1`, `mps`; empty: a GPU where there is one.",
        ),
    ] = ""
    bank_contexts: Annotated[
        int, Meta(ge=1_000, le=1_000_000, description="Contexts of one bank; the least recently signalled goes.")
    ] = 20_000
    bank_facts: Annotated[
        int, Meta(ge=1_000, le=100_000, description="Facts of one bank; the least recently signalled goes.")
    ] = 100_000

    bank_memories: Annotated[
        int, Meta(ge=1, le=100_000, description="Facts that one bank remembers; the one told longest ago goes.")
    ] = 20_000
    bank_memory_bytes: Annotated[
        int, Meta(ge=65_536, description="Bytes of their texts; above, the one told longest ago goes.")
    ] = 64 << 20
    recall_in_process: Annotated[
        bool,
        Meta(description="Whether a host that has the model (`tellback[workers]`) recalls itself, and asks no worker."),
    ] = False

    @property
    def served_teams(self) -> tuple[str, ...]:
        """The teams that workers and beat serve."""
        return tuple(name.strip() for name in self.teams.split(",") if name.strip()) or (self.team,)

    @property
    def words(self) -> Words:
        """What users are told where there is no answer.

        Raises:
            ConfigurationError: a catalog, or a language, is not as it should be.
        """
        from tellback.turns.words import load_words  # noqa: PLC0415 - most processes tell no user anything

        return load_words(self.fallback_language, self.channel_languages, self.catalogs)

    def late_of(self, channel: str) -> float:
        """Seconds after a fallback in which an answer that comes late is still sent to this channel.

        Raises:
            ConfigurationError: `channel_late_within` is not as it should be.
        """
        if not self.channel_late_within:
            return self.late_within
        from tellback.turns.late import late_by_channel  # noqa: PLC0415 - few set it

        return late_by_channel(self.channel_late_within).get(channel, self.late_within)

    @property
    def spoken_channels(self) -> frozenset[str]:
        """The channels of `voice_channels`."""
        return frozenset(name.strip() for name in self.voice_channels.split(",") if name.strip())

    @property
    def known_channels(self) -> frozenset[str]:
        """The channels of `channels`; none where any is allowed."""
        return frozenset(name.strip() for name in self.channels.split(",") if name.strip())

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    @property
    def host_name(self) -> str:
        """This host's name, as it stands in records and in the name of its queue."""
        return self.host or socket.gethostname()

    @property
    def data_path(self) -> Path:
        """Where this user's local files are, on this host."""
        if self.data_dir:
            return Path(self.data_dir)
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tellback"

    def record_path(self, team: str) -> Path | None:
        """Where the records of a team are appended on this host; a folder keeps each of several teams apart."""
        if self.record_file == "none":
            return None
        path = Path(self.record_file) if self.record_file else self.data_path / RECORD_FILE
        return path if len(self.served_teams) == 1 else path.parent / team / path.name


def load(environ: Mapping[str, str] | None = None, **overrides: str | None) -> Settings:
    """Settings from the environment, then `overrides` that are not None.

    Where neither names a Redis, it is that of a `tellback up` which runs on this host for this user, if one does.
    Rules for redaction that they name are in force in this process from then on.

    Raises:
        ConfigurationError: a value is not of its type or range; the message names the variable.
    """
    environ = os.environ if environ is None else environ
    fields = Settings.__struct_fields__
    given: dict[str, str] = {
        name: environ[PREFIX + name.upper()] for name in fields if environ.get(PREFIX + name.upper())
    }
    given.update({name: value for name, value in overrides.items() if value is not None})
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{_variable(str(error))}: {error}") from error
    _check_teams("TEAM", settings.team)
    _check_teams("TEAMS", *settings.served_teams)
    if settings.catalogs or settings.channel_languages or "fallback_language" in given:
        _ = settings.words  # checked now: nobody should learn of it while a user waits
    _ = settings.late_of("")  # as above
    if settings.redaction_rules:
        _add_rules(settings.redaction_rules)
    if "redis_url" not in given:
        running = find_running(settings.data_path)
        if running is not None:
            return msgspec.structs.replace(settings, redis_url=running.redis_url)
    return settings


def _add_rules(path: str) -> None:
    from tellback.redaction import add_rules  # noqa: PLC0415 - only who has such a file pays for reading it
    from tellback.redaction.custom import load_rules  # noqa: PLC0415 - as above

    try:
        add_rules(load_rules(Path(path)))
    except ConfigurationError as error:
        raise ConfigurationError(f"{PREFIX}REDACTION_RULES: {error}") from error


def _check_teams(name: str, *teams: str) -> None:
    try:
        for team in teams:
            check_team(team)
    except InvalidInput as error:
        raise ConfigurationError(f"{PREFIX}{name}: {error}") from error


def _variable(message: str) -> str:
    for name in Settings.__struct_fields__:
        if f"$.{name}`" in message:
            return PREFIX + name.upper()
    return PREFIX + "*"
