"""Actionable observations: what a tool call came to, what there is, and what to do next.

    evidence ── classify ──▶ finding ── situation ──▶ next steps ──▶ envelope ──▶ ToolFeedback (text)
                                           ▲
                         memory (what was tried), health (what cools down)

Pure: neither Redis nor Celery is known here. `Observer` ties it together. Source: actionable-feedback.
"""
