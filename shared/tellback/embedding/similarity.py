"""How near texts are by the model of this host: what `tellback.detect_signals` may be given to see other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tellback.embedding.encoder import Encoder, encoder_for
from tellback.settings import Settings, load
from tellback.signals.matching import Vectors

_AT_ONCE: Final = 512


class ModelSimilarity:
    """For each of some texts, its highest cosine with any of others.

    The model loads on first use, some five seconds, and stays in the process. It needs `tellback[workers]`.
    """

    def __init__(self, settings: Settings | None = None, *, encoder: Encoder | None = None) -> None:
        """Take the settings that name the model, by default those of `TELLBACK_*`; or a model of your own."""
        self._encoder = encoder or encoder_for(settings or load())

    def __call__(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """The cosines, in the order of `texts`.

        Raises:
            Unavailable: the model does not load.
        """
        if not texts or not others:
            return [0.0] * len(texts)
        distinct = list(dict.fromkeys([*texts, *others]))
        parts = [
            self._encoder.encode(distinct[start : start + _AT_ONCE]) for start in range(0, len(distinct), _AT_ONCE)
        ]
        every: Vectors = np.concatenate(parts)
        rows = dict(zip(distinct, every, strict=True))
        product = np.stack([rows[text] for text in texts]) @ np.stack([rows[text] for text in others]).T
        return [float(cosine) for cosine in product.max(axis=1)]
