"""LiteLLM: its tool messages have the form of OpenAI's, as mappings or as `litellm.Message`; both are taken.

Nothing of `litellm` is imported.
"""

from __future__ import annotations

from tellback.adapters.openai import append_feedback, guided, guided_soon

__all__ = ["append_feedback", "guided", "guided_soon"]
