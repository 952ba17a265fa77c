"""The settings of alerts, read from `TELLBACK_ALERT_*`; the receivers' URLs and secrets never reach a log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tellback.errors import ConfigurationError, InvalidInput
from tellback.transports.http_post import check_url
from tellback.transports.webhook import check_secret

PREFIX: Final = "TELLBACK_ALERT_"

RUNBOOKS: Final = "operations/runbooks"


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `tellback alerts`. Durations are in seconds."""

    webhook: Annotated[str, Meta(description="URL to which alerts are posted as JSON. A secret. Empty: none.")] = ""
    webhook_secret: Annotated[
        str, Meta(description="Secret that signs them, 16 bytes or more. Required with a webhook.")
    ] = ""
    slack: Annotated[str, Meta(description="URL of an incoming webhook of Slack. A secret. Empty: none.")] = ""
    docs_url: Annotated[
        str, Meta(description="Address of this documentation, for links to runbooks. Empty: paths in the repository.")
    ] = ""
    period: Annotated[float, Meta(ge=1, le=3_600, description="Time between two checks of each team.")] = 15.0
    timeout: Annotated[float, Meta(gt=0, le=60, description="Longest time of one request to a receiver.")] = 10.0
    resolve_after: Annotated[
        float, Meta(ge=0, le=86_400, description="Time that all must be well before an alert is resolved.")
    ] = 60.0
    overdue: Annotated[float, Meta(gt=0, description="Time past its deadline from which an open turn is an alert.")] = (
        10.0
    )
    lag: Annotated[float, Meta(gt=0, description="Waiting time of an event from which a backlog is an alert.")] = 60.0
    dead_letters: Annotated[int, Meta(ge=1, description="Number of dead letters that is an alert.")] = 1
    memory_share: Annotated[
        float, Meta(gt=0, le=1, description="Part of Redis' `maxmemory` from which a team's memory is an alert.")
    ] = 0.5

    def __repr__(self) -> str:
        """Name the receivers without showing their URLs or secrets."""
        receivers = [name for name in ("webhook", "slack") if getattr(self, name)]
        return f"AlertSettings(receivers={receivers}, period={self.period:g})"

    def runbook(self, name: str) -> str:
        """Return the address of a runbook, or its path in the repository if the documentation has no address."""
        if self.docs_url:
            page = "" if name == "index" else f"{name}/"
            return f"{self.docs_url.rstrip('/')}/{RUNBOOKS}/{page}"
        return f"docs/{RUNBOOKS}/{name}.md"


def load_alert_settings(environ: Mapping[str, str] | None = None) -> AlertSettings:
    """Read the settings from the environment.

    Raises:
        ConfigurationError: a value is wrong; the message names the variable, and repeats no secret.
    """
    environ = os.environ if environ is None else environ
    names = {name: PREFIX + name.upper() for name in AlertSettings.__struct_fields__}
    given = {name: environ[variable] for name, variable in names.items() if environ.get(variable)}
    try:
        settings = msgspec.convert(given, AlertSettings, strict=False)
        for name in ("webhook", "slack", "docs_url"):
            if given.get(name):
                check_url(names[name], given[name])
        if settings.webhook:
            check_secret(names["webhook_secret"], settings.webhook_secret)
    except msgspec.ValidationError as error:
        wrong = next((variable for name, variable in names.items() if f"$.{name}`" in str(error)), f"{PREFIX}*")
        raise ConfigurationError(f"{wrong}: {error}") from None
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None
    return settings
