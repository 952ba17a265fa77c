"""Turn a tool's result into an observation: what happened, what you have, and what to do next.

    evidence ── classify ──▶ finding ── situation ──▶ next steps ──▶ envelope ──▶ ToolFeedback (text)
                                           ▲
                         memory (what was tried), health (what cools down)

`ToolObserver` connects these steps. Nothing here imports Redis or Celery. Requirements G-51 and G-61.
"""
