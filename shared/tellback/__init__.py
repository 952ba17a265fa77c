"""Tellback closes the loop for fleets of AI agents.

Each public name is imported on its first use (PEP 562), so `import tellback` costs a short-lived process very little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str
    from tellback.client.banks import Bank as Bank
    from tellback.client.commands import Job as Job
    from tellback.client.connection import Tellback as Tellback
    from tellback.client.connection import connect as connect
    from tellback.client.guidance import Prompt as Prompt
    from tellback.client.guidance_events import Observations as Observations
    from tellback.client.outbox import OutboxDelivery as OutboxDelivery
    from tellback.client.signal_session import SignalSession as SignalSession
    from tellback.client.turns import Turn as Turn
    from tellback.commands.record import load_records as load_records
    from tellback.contracts.commands import CommandRecord as CommandRecord
    from tellback.contracts.commands import OutputPiece as OutputPiece
    from tellback.contracts.commands import Verdict as Verdict
    from tellback.contracts.guidance import ContextChange as ContextChange
    from tellback.contracts.guidance import Feedback as Feedback
    from tellback.contracts.guidance import FeedbackTrigger as FeedbackTrigger
    from tellback.contracts.guidance import Observation as Observation
    from tellback.contracts.guidance import Offer as Offer
    from tellback.contracts.guidance import Outcome as Outcome
    from tellback.contracts.guidance import ProviderSpec as ProviderSpec
    from tellback.contracts.guidance import ToolCall as ToolCall
    from tellback.contracts.signals import BankStats as BankStats
    from tellback.contracts.signals import Candidate as Candidate
    from tellback.contracts.signals import FactScore as FactScore
    from tellback.contracts.signals import FactStats as FactStats
    from tellback.contracts.signals import RecallHit as RecallHit
    from tellback.contracts.signals import SignalItem as SignalItem
    from tellback.contracts.turns import LlmError as LlmError
    from tellback.contracts.turns import LlmResponse as LlmResponse
    from tellback.contracts.turns import OutgoingResponse as OutgoingResponse
    from tellback.contracts.turns import RoutingOutcome as RoutingOutcome
    from tellback.contracts.turns import SystemFailure as SystemFailure
    from tellback.contracts.turns import TurnMessage as TurnMessage
    from tellback.errors import ConfigurationError as ConfigurationError
    from tellback.errors import InvalidInput as InvalidInput
    from tellback.errors import MessageError as MessageError
    from tellback.errors import NotFound as NotFound
    from tellback.errors import SpoolFull as SpoolFull
    from tellback.errors import StateConflict as StateConflict
    from tellback.errors import TellbackError as TellbackError
    from tellback.errors import Timeout as Timeout
    from tellback.errors import Unavailable as Unavailable
    from tellback.guidance.builtin_providers import BudgetFeedback as BudgetFeedback
    from tellback.guidance.builtin_providers import ContextChangeFeedback as ContextChangeFeedback
    from tellback.guidance.builtin_providers import DeadlineFeedback as DeadlineFeedback
    from tellback.guidance.builtin_providers import FailureStreakFeedback as FailureStreakFeedback
    from tellback.guidance.builtin_providers import RepeatedCallFeedback as RepeatedCallFeedback
    from tellback.guidance.builtin_providers import StaticFeedback as StaticFeedback
    from tellback.guidance.builtin_providers import ToolUsageMonitor as ToolUsageMonitor
    from tellback.guidance.observations.completion import AnswerCheck as AnswerCheck
    from tellback.guidance.observations.evidence import Evidence as Evidence
    from tellback.guidance.observations.evidence import Finding as Finding
    from tellback.guidance.observations.evidence import Suggestion as Suggestion
    from tellback.guidance.observations.evidence import ToolEnvelope as ToolEnvelope
    from tellback.guidance.observations.feedback import ToolFeedback as ToolFeedback
    from tellback.guidance.observations.memory import ObservationMemory as ObservationMemory
    from tellback.guidance.observations.suggesters import suggester as suggester
    from tellback.guidance.observations.tools import Tool as Tool
    from tellback.guidance.provider import FeedbackContext as FeedbackContext
    from tellback.guidance.provider import FeedbackProvider as FeedbackProvider
    from tellback.guidance.provider import FeedbackProviderConfig as FeedbackProviderConfig
    from tellback.guidance.registry import recommended_providers as recommended_providers
    from tellback.guidance.stuck_feedback import StuckFeedback as StuckFeedback
    from tellback.settings import Settings as Settings
    from tellback.signals.detection import FactEvidence as FactEvidence
    from tellback.signals.detection import detect_signals as detect_signals
    from tellback.signals.detection import weigh_facts as weigh_facts
    from tellback.turns.fallback_text import Words as Words
    from tellback.turns.pipeline.context import AgentSystem as AgentSystem
    from tellback.turns.pipeline.context import TurnAbout as TurnAbout
    from tellback.turns.pipeline.context import TurnContext as TurnContext
    from tellback.turns.pipeline.runner import TurnPipeline as TurnPipeline
    from tellback.turns.pipeline.systems import ErrorInterpretationSystem as ErrorInterpretationSystem
    from tellback.turns.pipeline.systems import ErrorRule as ErrorRule
    from tellback.turns.pipeline.systems import FeedbackGuaranteeSystem as FeedbackGuaranteeSystem
    from tellback.turns.pipeline.systems import (
        OutgoingResponsePreparationSystem as OutgoingResponsePreparationSystem,
    )
    from tellback.turns.pipeline.systems import ResponseRoutingSystem as ResponseRoutingSystem

# Public name -> the module that defines it. The imports above say the same to type checkers; a test compares the two.
_EXPORTS: Final = {
    "AgentSystem": "tellback.turns.pipeline.context",
    "AnswerCheck": "tellback.guidance.observations.completion",
    "Bank": "tellback.client.banks",
    "BankStats": "tellback.contracts.signals",
    "BudgetFeedback": "tellback.guidance.builtin_providers",
    "Candidate": "tellback.contracts.signals",
    "CommandRecord": "tellback.contracts.commands",
    "ConfigurationError": "tellback.errors",
    "ContextChange": "tellback.contracts.guidance",
    "ContextChangeFeedback": "tellback.guidance.builtin_providers",
    "DeadlineFeedback": "tellback.guidance.builtin_providers",
    "ErrorInterpretationSystem": "tellback.turns.pipeline.systems",
    "ErrorRule": "tellback.turns.pipeline.systems",
    "Evidence": "tellback.guidance.observations.evidence",
    "FactEvidence": "tellback.signals.detection",
    "FactScore": "tellback.contracts.signals",
    "FactStats": "tellback.contracts.signals",
    "FailureStreakFeedback": "tellback.guidance.builtin_providers",
    "Feedback": "tellback.contracts.guidance",
    "FeedbackContext": "tellback.guidance.provider",
    "FeedbackGuaranteeSystem": "tellback.turns.pipeline.systems",
    "FeedbackProvider": "tellback.guidance.provider",
    "FeedbackProviderConfig": "tellback.guidance.provider",
    "FeedbackTrigger": "tellback.contracts.guidance",
    "Finding": "tellback.guidance.observations.evidence",
    "InvalidInput": "tellback.errors",
    "Job": "tellback.client.commands",
    "LlmError": "tellback.contracts.turns",
    "LlmResponse": "tellback.contracts.turns",
    "MessageError": "tellback.errors",
    "NotFound": "tellback.errors",
    "Observation": "tellback.contracts.guidance",
    "ObservationMemory": "tellback.guidance.observations.memory",
    "Observations": "tellback.client.guidance_events",
    "Offer": "tellback.contracts.guidance",
    "OutboxDelivery": "tellback.client.outbox",
    "Outcome": "tellback.contracts.guidance",
    "OutgoingResponse": "tellback.contracts.turns",
    "OutgoingResponsePreparationSystem": "tellback.turns.pipeline.systems",
    "OutputPiece": "tellback.contracts.commands",
    "Prompt": "tellback.client.guidance",
    "ProviderSpec": "tellback.contracts.guidance",
    "RecallHit": "tellback.contracts.signals",
    "RepeatedCallFeedback": "tellback.guidance.builtin_providers",
    "ResponseRoutingSystem": "tellback.turns.pipeline.systems",
    "RoutingOutcome": "tellback.contracts.turns",
    "Settings": "tellback.settings",
    "SignalItem": "tellback.contracts.signals",
    "SignalSession": "tellback.client.signal_session",
    "SpoolFull": "tellback.errors",
    "StateConflict": "tellback.errors",
    "StaticFeedback": "tellback.guidance.builtin_providers",
    "StuckFeedback": "tellback.guidance.stuck_feedback",
    "Suggestion": "tellback.guidance.observations.evidence",
    "SystemFailure": "tellback.contracts.turns",
    "Tellback": "tellback.client.connection",
    "TellbackError": "tellback.errors",
    "Timeout": "tellback.errors",
    "Tool": "tellback.guidance.observations.tools",
    "ToolCall": "tellback.contracts.guidance",
    "ToolEnvelope": "tellback.guidance.observations.evidence",
    "ToolFeedback": "tellback.guidance.observations.feedback",
    "ToolUsageMonitor": "tellback.guidance.builtin_providers",
    "Turn": "tellback.client.turns",
    "TurnAbout": "tellback.turns.pipeline.context",
    "TurnContext": "tellback.turns.pipeline.context",
    "TurnMessage": "tellback.contracts.turns",
    "TurnPipeline": "tellback.turns.pipeline.runner",
    "Unavailable": "tellback.errors",
    "Verdict": "tellback.contracts.commands",
    "Words": "tellback.turns.fallback_text",
    "connect": "tellback.client.connection",
    "detect_signals": "tellback.signals.detection",
    "load_records": "tellback.commands.record",
    "recommended_providers": "tellback.guidance.registry",
    "suggester": "tellback.guidance.observations.suggesters",
    "weigh_facts": "tellback.signals.detection",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # what `from tellback import *` asks for
        return sorted(_EXPORTS)
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - it reads a file, which few importers need

        return version("tellback")
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'tellback' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `tellback hook` needs no such name, and starts sooner without

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, "__version__"})
