"""`tellback`: the command line."""

from __future__ import annotations

import logging

import typer

from tellback.cli import (
    banks,
    calibrate,
    commands,
    dead,
    demo,
    history,
    hook,
    init_runner,
    metrics,
    records,
    redact,
    replay,
    signals,
    stats,
    system,
    turns,
    watch,
)

app = typer.Typer(
    name="tellback",
    help="Tellback closes the loop for fleets of AI agents: commands, guidance, turns and signals that answer back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals may hold what must not reach a terminal
    rich_markup_mode="rich",
)
_begin = (demo, system, commands, records, watch, redact, init_runner)
_modules = (*_begin, hook, replay, history, turns, signals, banks, calibrate, stats, metrics, dead)
for module in _modules:
    module.register(app)


def main() -> None:
    """The console script."""
    logging.getLogger("tellback").setLevel(logging.ERROR)  # a command says in its own words what is wrong, once
    app()
