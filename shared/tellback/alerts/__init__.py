"""Alerts about a team: a webhook and Slack get one notice of each change. Requirement A-118.

readings ── rules ──▶ what holds now ── compared with what each sink was notified of ──▶ one notice for each change

A process of its own, `tellback alerts --send`, does this: a receiver that hangs holds up neither beat nor a worker.
"""
