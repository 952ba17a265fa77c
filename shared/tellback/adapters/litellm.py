"""Guidance for LiteLLM, whose tool messages have OpenAI's form: pass mappings or `litellm.Message` objects.

It doesn't import `litellm`.
"""

from __future__ import annotations

from tellback.adapters.openai import append_feedback, guided, guided_async

__all__ = ["append_feedback", "guided", "guided_async"]
