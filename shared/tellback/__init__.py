"""Tellback closes the loop for fleets of AI agents.

Names are loaded when first used, so that `import tellback` costs next to nothing in a short-lived process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tellback.client.commands import Job as Job
    from tellback.client.connection import Tellback as Tellback
    from tellback.client.connection import connect as connect
    from tellback.client.guidance import Prompt as Prompt
    from tellback.client.observing import Observations as Observations
    from tellback.client.outbox import OutboxDelivery as OutboxDelivery
    from tellback.client.signal_session import SignalSession as SignalSession
    from tellback.client.signals import Bank as Bank
    from tellback.client.turns import Turn as Turn
    from tellback.commands.recordfile import load_records as load_records
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
    from tellback.contracts.llm import LlmError as LlmError
    from tellback.contracts.llm import LlmResponse as LlmResponse
    from tellback.contracts.llm import SystemFailure as SystemFailure
    from tellback.contracts.llm import TurnMessage as TurnMessage
    from tellback.contracts.signals import BankStats as BankStats
    from tellback.contracts.signals import Candidate as Candidate
    from tellback.contracts.signals import FactScore as FactScore
    from tellback.contracts.signals import FactStats as FactStats
    from tellback.contracts.signals import RecallHit as RecallHit
    from tellback.contracts.signals import SignalItem as SignalItem
    from tellback.contracts.turns import OutgoingResponse as OutgoingResponse
    from tellback.contracts.turns import RoutingOutcome as RoutingOutcome
    from tellback.errors import ConfigurationError as ConfigurationError
    from tellback.errors import InvalidInput as InvalidInput
    from tellback.errors import MessageError as MessageError
    from tellback.errors import NotFound as NotFound
    from tellback.errors import SpoolFull as SpoolFull
    from tellback.errors import StateConflict as StateConflict
    from tellback.errors import TellbackError as TellbackError
    from tellback.errors import Timeout as Timeout
    from tellback.errors import Unavailable as Unavailable
    from tellback.guidance.budget import BudgetFeedback as BudgetFeedback
    from tellback.guidance.changes import ContextChangeFeedback as ContextChangeFeedback
    from tellback.guidance.context import FeedbackContext as FeedbackContext
    from tellback.guidance.deadline import DeadlineFeedback as DeadlineFeedback
    from tellback.guidance.failures import FailureStreakFeedback as FailureStreakFeedback
    from tellback.guidance.observations.completion import AnswerCheck as AnswerCheck
    from tellback.guidance.observations.envelope import Suggestion as Suggestion
    from tellback.guidance.observations.envelope import ToolEnvelope as ToolEnvelope
    from tellback.guidance.observations.evidence import Evidence as Evidence
    from tellback.guidance.observations.evidence import Finding as Finding
    from tellback.guidance.observations.feedback import ToolFeedback as ToolFeedback
    from tellback.guidance.observations.memory import ObservationMemory as ObservationMemory
    from tellback.guidance.observations.suggesters import suggester as suggester
    from tellback.guidance.observations.tools import Tool as Tool
    from tellback.guidance.provider import FeedbackProvider as FeedbackProvider
    from tellback.guidance.provider import FeedbackProviderConfig as FeedbackProviderConfig
    from tellback.guidance.recommended import recommended_providers as recommended_providers
    from tellback.guidance.repeated import RepeatedCallFeedback as RepeatedCallFeedback
    from tellback.guidance.static import StaticFeedback as StaticFeedback
    from tellback.guidance.usage import ToolUsageMonitor as ToolUsageMonitor
    from tellback.settings import Settings as Settings
    from tellback.signals.detection import FactEvidence as FactEvidence
    from tellback.signals.detection import detect_signals as detect_signals
    from tellback.signals.detection import weigh_facts as weigh_facts
    from tellback.turns.pipeline.context import TurnAbout as TurnAbout
    from tellback.turns.pipeline.context import TurnContext as TurnContext
    from tellback.turns.pipeline.guarantee import FeedbackGuaranteeSystem as FeedbackGuaranteeSystem
    from tellback.turns.pipeline.interpretation import ErrorInterpretationSystem as ErrorInterpretationSystem
    from tellback.turns.pipeline.interpretation import ErrorRule as ErrorRule
    from tellback.turns.pipeline.preparation import (
        OutgoingResponsePreparationSystem as OutgoingResponsePreparationSystem,
    )
    from tellback.turns.pipeline.routing import ResponseRoutingSystem as ResponseRoutingSystem
    from tellback.turns.pipeline.runner import TurnPipeline as TurnPipeline
    from tellback.turns.pipeline.system import AgentSystem as AgentSystem
    from tellback.turns.words import Words as Words

# Public name -> the module that defines it; the imports above tell type checkers the same, and a test compares the two.
_EXPORTS: Final = {
    "AgentSystem": "tellback.turns.pipeline.system",
    "AnswerCheck": "tellback.guidance.observations.completion",
    "Bank": "tellback.client.signals",
    "BankStats": "tellback.contracts.signals",
    "BudgetFeedback": "tellback.guidance.budget",
    "Candidate": "tellback.contracts.signals",
    "CommandRecord": "tellback.contracts.commands",
    "ConfigurationError": "tellback.errors",
    "ContextChange": "tellback.contracts.guidance",
    "ContextChangeFeedback": "tellback.guidance.changes",
    "DeadlineFeedback": "tellback.guidance.deadline",
    "ErrorInterpretationSystem": "tellback.turns.pipeline.interpretation",
    "ErrorRule": "tellback.turns.pipeline.interpretation",
    "Evidence": "tellback.guidance.observations.evidence",
    "FactEvidence": "tellback.signals.detection",
    "FactScore": "tellback.contracts.signals",
    "FactStats": "tellback.contracts.signals",
    "FailureStreakFeedback": "tellback.guidance.failures",
    "Feedback": "tellback.contracts.guidance",
    "FeedbackContext": "tellback.guidance.context",
    "FeedbackGuaranteeSystem": "tellback.turns.pipeline.guarantee",
    "FeedbackProvider": "tellback.guidance.provider",
    "FeedbackProviderConfig": "tellback.guidance.provider",
    "FeedbackTrigger": "tellback.contracts.guidance",
    "Finding": "tellback.guidance.observations.evidence",
    "InvalidInput": "tellback.errors",
    "Job": "tellback.client.commands",
    "LlmError": "tellback.contracts.llm",
    "LlmResponse": "tellback.contracts.llm",
    "MessageError": "tellback.errors",
    "NotFound": "tellback.errors",
    "Observation": "tellback.contracts.guidance",
    "ObservationMemory": "tellback.guidance.observations.memory",
    "Observations": "tellback.client.observing",
    "Offer": "tellback.contracts.guidance",
    "OutboxDelivery": "tellback.client.outbox",
    "Outcome": "tellback.contracts.guidance",
    "OutgoingResponse": "tellback.contracts.turns",
    "OutgoingResponsePreparationSystem": "tellback.turns.pipeline.preparation",
    "OutputPiece": "tellback.contracts.commands",
    "Prompt": "tellback.client.guidance",
    "ProviderSpec": "tellback.contracts.guidance",
    "RecallHit": "tellback.contracts.signals",
    "RepeatedCallFeedback": "tellback.guidance.repeated",
    "ResponseRoutingSystem": "tellback.turns.pipeline.routing",
    "RoutingOutcome": "tellback.contracts.turns",
    "Settings": "tellback.settings",
    "SignalItem": "tellback.contracts.signals",
    "SignalSession": "tellback.client.signal_session",
    "SpoolFull": "tellback.errors",
    "StateConflict": "tellback.errors",
    "StaticFeedback": "tellback.guidance.static",
    "Suggestion": "tellback.guidance.observations.envelope",
    "SystemFailure": "tellback.contracts.llm",
    "Tellback": "tellback.client.connection",
    "TellbackError": "tellback.errors",
    "Timeout": "tellback.errors",
    "Tool": "tellback.guidance.observations.tools",
    "ToolCall": "tellback.contracts.guidance",
    "ToolEnvelope": "tellback.guidance.observations.envelope",
    "ToolFeedback": "tellback.guidance.observations.feedback",
    "ToolUsageMonitor": "tellback.guidance.usage",
    "Turn": "tellback.client.turns",
    "TurnAbout": "tellback.turns.pipeline.context",
    "TurnContext": "tellback.turns.pipeline.context",
    "TurnMessage": "tellback.contracts.llm",
    "TurnPipeline": "tellback.turns.pipeline.runner",
    "Unavailable": "tellback.errors",
    "Verdict": "tellback.contracts.commands",
    "Words": "tellback.turns.words",
    "connect": "tellback.client.connection",
    "detect_signals": "tellback.signals.detection",
    "load_records": "tellback.commands.recordfile",
    "recommended_providers": "tellback.guidance.recommended",
    "suggester": "tellback.guidance.observations.suggesters",
    "weigh_facts": "tellback.signals.detection",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # what `from tellback import *` asks for
        return sorted(_EXPORTS)
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'tellback' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
