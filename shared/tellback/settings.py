"""Every setting, read from `TELLBACK_*` environment variables.

`docs/configuration.md` is generated from the descriptions here, so they are written for users.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from tellback.connection_file import find_running
from tellback.errors import ConfigurationError
from tellback.names import RECORD_FILE, check_data_dir
from tellback.own_passwords import remember_passwords
from tellback.settings_checks import add_rules_of, check_teams, wrong_setting
from tellback.urls import check_broker

if TYPE_CHECKING:
    from tellback.turns.fallback_text import Words

PREFIX: Final = "TELLBACK_"

NO_HOME: Final = f"this user has no home directory: set {PREFIX}DATA_DIR"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one process. Durations are in seconds unless the description says otherwise."""

    # Every number is bounded, or `inf` and a slip of the unit would be taken. Work waits for a dead process's lease or
    # a missed sweep: five minutes, one minute. A bank's texts must fit into a worker's memory, a stream into Redis'.

    redis_url: Annotated[
        str,
        Meta(
            description="URL of the Redis that stores the state: `redis://`, `rediss://` (TLS), `unix://`, "
            "`sentinel://`, `redis+cluster://` or `rediss+cluster://`. Default: that of a running `tellback up`."
        ),
    ] = "redis://127.0.0.1:6379/0"
    broker_url: Annotated[
        str,
        Meta(description="URL of Celery's broker: a Redis, also behind Sentinel, not a cluster. Empty: `redis_url`."),
    ] = ""
    wait_replicas: Annotated[
        int, Meta(ge=0, le=16, description="Number of replicas that confirm decisions, commands and leases. 0: none.")
    ] = 0
    wait_aof: Annotated[bool, Meta(description="They, and the primary, confirm from disk. Requires Redis 7.2.")] = False
    wait_timeout: Annotated[
        float, Meta(gt=0, le=4, description="Time that one write waits for its replicas and disks.")
    ] = 1.0
    team: Annotated[str, Meta(description="Team whose state this process uses: `[a-z0-9-]+`.")] = "default"
    teams: Annotated[str, Meta(description="Teams that this worker looks after, comma-separated. Empty: all.")] = ""
    shards: Annotated[
        int, Meta(ge=1, le=1024, description="Number of shards of a team's state; fixed when the team is first used.")
    ] = 4
    host: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,253}$", description="This host's name. Empty: the system's host name.")
    ] = ""
    data_dir: Annotated[str, Meta(description="Absolute path of files and spool. Empty: the user's own folder.")] = ""
    publish_delay: Annotated[float, Meta(ge=0, le=60, description="Maximum time events wait for a batch.")] = 0.02
    publish_batch: Annotated[
        int, Meta(ge=1, le=10_000, description="Maximum number of events per stream in one round trip.")
    ] = 200
    intake_max: Annotated[
        int, Meta(ge=1, le=10_000_000, description="Length of an intake stream above which hosts spool to disk.")
    ] = 100_000
    intake_max_bytes: Annotated[
        int, Meta(ge=1, le=1 << 40, description="Maximum bytes of one family's intake streams. Hosts spool the rest.")
    ] = 512 << 20
    spool_max_bytes: Annotated[int, Meta(ge=4096, le=1 << 40, description="Maximum bytes of a disk spool.")] = 256 << 20
    consume_batch: Annotated[int, Meta(ge=1, le=2_000, description="Entries that a consumer reads at once.")] = 500
    consumer_lease: Annotated[float, Meta(gt=0, le=300, description="Lease of a consumer; it works for half.")] = 5.0
    linger: Annotated[
        float,
        Meta(ge=0, le=60, description="Time that one process of an idle worker waits for more tool events. 0: none."),
    ] = 5.0
    embed_lease: Annotated[
        float, Meta(gt=0, le=300, description="Lease of a consumer that embeds texts (signals, recalls).")
    ] = 30.0
    embed_delay: Annotated[float, Meta(ge=0, le=1, description="Maximum batching delay of texts to embed.")] = 0.005
    model_wait: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time that a bank's signals and facts wait for a worker with the bank's model before they "
            "become dead letters.",
        ),
    ] = 600.0
    beat_period: Annotated[
        float, Meta(gt=0, le=60, description="Period of beat's sweeps (lost wake-ups, turns, lost jobs).")
    ] = 2.0
    job_lease: Annotated[
        float, Meta(ge=1, le=3_600, description="Lease of a running command, renewed by its worker.")
    ] = 10.0
    command_queue_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Maximum queued commands in a shard, for each host or none. Others fail."),
    ] = 10_000
    command_redis_wait: Annotated[
        float, Meta(ge=0, le=3_600, description="Time a command keeps running without Redis. A retry waits as long.")
    ] = 30.0
    host_wait: Annotated[
        float,
        Meta(ge=0, le=3_600, description="Time a command waits for a worker of its host. Then its record says so."),
    ] = 30.0
    command_grace: Annotated[
        float,
        Meta(ge=0, le=3_600, description="Time between SIGTERM and SIGKILL; background processes get it too."),
    ] = 5.0
    command_roots: Annotated[
        str, Meta(description="Directories that commands may run in, separated by `:`. Empty: the worker's own.")
    ] = ""
    command_policy: Annotated[
        str, Meta(description="TOML file with the policy for commands on this worker's host. Empty: none.")
    ] = ""
    command_cgroup: Annotated[
        str,
        Meta(
            description="cgroup v2 directory for the control groups of limited commands. Empty: the worker's own, if "
            "delegated. `off`: no control groups."
        ),
    ] = ""
    command_secret_env: Annotated[
        str, Meta(description="Worker environment variables that `secret_env` may name, comma-separated.")
    ] = ""
    record_file: Annotated[
        str,
        Meta(
            description="File to which this host's workers append records. Empty: `feedback_record.jsonl` in the data "
            "directory. `none`: no file."
        ),
    ] = ""
    tracing: Annotated[bool, Meta(description="Record spans of OpenTelemetry. Requires `tellback[otel]`.")] = False
    log_json: Annotated[bool, Meta(description="Write each line of a worker's log as an object of JSON.")] = False
    redaction_rules: Annotated[
        str, Meta(description="TOML file with redaction rules to add to the built-in ones. Empty: none.")
    ] = ""
    provider_timeout: Annotated[float, Meta(gt=0, le=10, description="Timeout of a custom provider's call.")] = 0.25
    feedback_deadline: Annotated[
        float, Meta(gt=0, le=10, description="Deadline of each Redis call of `prompt.feedback`.")
    ] = 0.1
    hook_wait: Annotated[
        float, Meta(gt=0, le=10, description="Maximum time that one `tellback hook` process spends on Redis.")
    ] = 0.05
    hook_policy: Annotated[
        str, Meta(description="TOML file by which `tellback hook pre-tool-use` may deny calls. Empty: it denies none.")
    ] = ""
    hook_config: Annotated[
        str, Meta(description="TOML file that selects the providers of `tellback hook`. Empty: the default ones.")
    ] = ""
    tool_cooldown: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="Time for which a tool that refused a call, without saying for how long, is not suggested to "
            "any agent of the team. Doubles with each further refusal, up to ten minutes.",
        ),
    ] = 30.0
    providers: Annotated[str, Meta(description="Custom providers: `module:Class`, comma-separated.")] = ""
    guidance_idle: Annotated[
        float, Meta(gt=0, le=604_800, description="Time without an event after which an evaluation's timers stop.")
    ] = 3_600.0
    observation_language: Annotated[
        str, Meta(description="Language of observations of tool calls: en, de or ru. A prompt can override it.")
    ] = "en"
    observation_templates: Annotated[
        str, Meta(description="TOML file with custom templates for observations. Empty: the built-in ones.")
    ] = ""
    turn_limit: Annotated[
        float, Meta(gt=0, le=86_400, description="Maximum lifetime of a turn, including extensions by progress.")
    ] = 3_600.0
    finish_grace: Annotated[
        float,
        Meta(gt=0, le=600, description="Time that a published answer has to reach a worker before the sweep answers."),
    ] = 10.0
    late_within: Annotated[
        float,
        Meta(
            ge=0,
            le=604_800,
            description="Time after a fallback within which a late answer is still sent. Later answers are stale and "
            "only kept in the history. 0: never send late answers.",
        ),
    ] = 3_600.0
    channel_late_within: Annotated[str, Meta(description="`late_within` by channel: `web=0,telegram=86400`.")] = ""
    sweep_batch: Annotated[int, Meta(ge=1, le=10_000, description="Overdue turns that one sweep closes.")] = 500
    outbox_lease: Annotated[float, Meta(gt=0, le=86_400, description="Time a transport has to settle a delivery.")] = (
        60.0
    )
    outbox_attempts: Annotated[int, Meta(ge=1, le=1_000, description="Maximum attempts to send a delivery.")] = 8
    outbox_retry: Annotated[
        float, Meta(gt=0, le=300, description="Delay before the second attempt; doubles each time, up to five minutes.")
    ] = 1.0
    outbox_hold: Annotated[
        float, Meta(gt=0, le=86_400, description="Time that an ambiguous delivery holds its conversation.")
    ] = 30.0
    channels: Annotated[
        str,
        Meta(
            description="Channels that have transports, comma-separated. Workers fail deliveries to any other channel "
            "at once and log it. Empty: deliveries to any channel wait for a transport."
        ),
    ] = ""
    fallback_language: Annotated[str, Meta(description="Default language of fallbacks.")] = "en"
    channel_languages: Annotated[
        str,
        Meta(
            description="Languages by channel, for turns that set none: `telegram=ru,web=de`, or a TOML file with a "
            "table `channels`."
        ),
    ] = ""
    catalogs: Annotated[
        str, Meta(description="Directory of LANGUAGE/LC_MESSAGES/tellback.po or .mo files that override the built-in.")
    ] = ""
    systems: Annotated[
        str, Meta(description="Custom systems of the turn pipeline: `module:Class`, comma-separated.")
    ] = ""
    system_timeout: Annotated[
        float, Meta(gt=0, le=10, description="Timeout of one step of a custom system in a worker.")
    ] = 0.5
    interpret_errors: Annotated[bool, Meta(description="Show users the kind of error, if it is known.")] = False
    voice_channels: Annotated[
        str, Meta(description="Channels where voice messages are answered by voice, comma-separated. `*`: all.")
    ] = ""
    model: Annotated[
        str, Meta(description="Embedding model: a directory, or a name on the Hugging Face hub. Empty: packaged.")
    ] = ""
    model_revision: Annotated[
        str, Meta(description="Commit of a model on the hub, 40 hex digits. Required for such a model.")
    ] = ""
    model_sha256: Annotated[
        str, Meta(description="SHA-256 of the weights files, comma-separated. Empty: verify only the packaged model.")
    ] = ""
    model_preload: Annotated[bool, Meta(description="A worker loads it at start, if its pool shares one copy.")] = False
    device: Annotated[
        str,
        Meta(
            pattern=r"^([a-z]+(:[0-9]+)?)?$",
            description="Device of the model: `cpu`, `cuda`, `cuda:1` or `mps`. Empty: a GPU if available.",
        ),
    ] = ""
    bank_clusters: Annotated[
        int,
        Meta(ge=1_000, le=1_000_000, description="Maximum clusters of a bank; evicts the least recently signalled."),
    ] = 20_000
    bank_facts: Annotated[
        int,
        Meta(ge=1_000, le=100_000, description="Maximum scored facts of a bank; evicts the least recently signalled."),
    ] = 100_000
    bank_stored_facts: Annotated[
        int, Meta(ge=1, le=100_000, description="Maximum stored facts of a bank; evicts the least recently stored.")
    ] = 20_000
    bank_stored_bytes: Annotated[
        int, Meta(ge=65_536, le=4 << 30, description="Maximum bytes of a bank's texts; evicts the oldest.")
    ] = 64 << 20
    recall_in_process: Annotated[
        bool, Meta(description="Run recalls in this process instead of a worker. Requires `tellback[workers]`.")
    ] = False

    @property
    def served_teams(self) -> tuple[str, ...]:
        """The teams whose notifications and visits this worker looks after; empty: all."""
        return tuple(name.strip() for name in self.teams.split(",") if name.strip())

    @property
    def longest_consumer_lease(self) -> float:
        """The longest lease of a consumer, in seconds."""
        return max(self.consumer_lease, self.embed_lease)

    @property
    def turn_texts(self) -> Words:
        """The texts of fallbacks, in every language and for every channel.

        Raises:
            ConfigurationError: a catalog or a language is invalid.
        """
        from tellback.turns.fallback_text import load_words  # noqa: PLC0415 - most processes send no text to users

        return load_words(self.fallback_language, self.channel_languages, self.catalogs)

    def late_within_of(self, channel: str) -> float:
        """Return the seconds after a fallback within which a late answer is still sent to this channel.

        Raises:
            ConfigurationError: `channel_late_within` is invalid.
        """
        if not self.channel_late_within:
            return self.late_within
        from tellback.turns.fallback_text import late_by_channel  # noqa: PLC0415 - few set it

        return late_by_channel(self.channel_late_within).get(channel, self.late_within)

    @property
    def spoken_channels(self) -> frozenset[str]:
        """The channels of `voice_channels`."""
        return frozenset(name.strip() for name in self.voice_channels.split(",") if name.strip())

    @property
    def known_channels(self) -> frozenset[str]:
        """The channels of `channels`; empty if any channel is allowed."""
        return frozenset(name.strip() for name in self.channels.split(",") if name.strip())

    @property
    def broker(self) -> str:
        """The broker's URL. Raises `ConfigurationError` if Celery cannot use it."""
        return check_broker(self.broker_url or self.redis_url, f"{PREFIX}BROKER_URL")

    @property
    def host_name(self) -> str:
        """This host's name, as records and the name of its command queue have it."""
        return self.host or socket.gethostname()

    @property
    def data_path(self) -> Path:
        """The directory of this user's local files on this host.

        Raises:
            ConfigurationError: its path is relative, or no variable names it and the user has no home directory.
        """
        if self.data_dir:
            return Path(check_data_dir(self.data_dir))
        share = os.environ.get("XDG_DATA_HOME", "")
        try:  # a relative one is to be ignored, says the specification of XDG
            share = share if share.startswith("/") else str(Path.home() / ".local" / "share")
        except RuntimeError:  # no HOME, and no such user in the system's list, as in a container with a user of its own
            raise ConfigurationError(NO_HOME) from None
        return Path(share) / "tellback"

    def record_path(self, team: str) -> Path | None:
        """Return the file for a team's records, or None for no file; teams other than `team` have a folder each."""
        if self.record_file == "none":
            return None
        path = Path(self.record_file) if self.record_file else self.data_path / RECORD_FILE
        return path if team == self.team else path.parent / team / path.name


def load(environ: Mapping[str, str] | None = None, **overrides: str | None) -> Settings:
    """Read settings from the environment, then apply `overrides` that are not None.

    If neither sets a Redis URL, that of this user's running `tellback up` on this host is used, if there is one. Custom
    redaction rules apply to this process from then on.

    Raises:
        ConfigurationError: a value has the wrong type or range; the message names the variable or the override.
    """
    environ = os.environ if environ is None else environ
    fields = Settings.__struct_fields__
    arguments = {name: value for name, value in overrides.items() if value is not None}
    given: dict[str, str] = {
        name: environ[PREFIX + name.upper()] for name in fields if environ.get(PREFIX + name.upper())
    } | arguments
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        name, wrong = wrong_setting(str(error), given)
        raise ConfigurationError(f"{name if name in arguments else PREFIX + name.upper()}: {wrong}") from error
    put_into_force(settings, "" if "team" in arguments else f"{PREFIX}TEAM")
    if "redis_url" not in given:
        running = find_running(settings.data_path)
        if running is not None:
            settings = msgspec.structs.replace(settings, redis_url=running.redis_url)
    remember_passwords(*(getattr(settings, name) for name in Settings.__struct_fields__ if name.endswith("_url")))
    return settings


def put_into_force(settings: Settings, team: str) -> None:
    """Check what no type says, and add redaction rules; `team` is the name of that setting in an error."""
    check_teams(team, settings.team)
    check_teams(f"{PREFIX}TEAMS", *settings.served_teams)
    if settings.catalogs or settings.channel_languages or settings.fallback_language != "en":
        _ = settings.turn_texts  # fail at the start, not when a turn is overdue and its user waits
    _ = settings.late_within_of("")  # as above
    add_rules_of(settings.redaction_rules, f"{PREFIX}REDACTION_RULES")
