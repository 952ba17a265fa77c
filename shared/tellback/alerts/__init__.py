"""Alerts about a team, told once for each change to a webhook and to Slack. Requirement A-118.

readings ── rules ──▶ what holds now ── compared with what each sink was told ──▶ one notice for each change

A process of its own, `tellback alerts --send`, does this: a receiver that hangs holds up neither beat nor a worker.
"""
