"""Small real models of sentence-transformers, made here: random weights, the packaged model's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tellback.embedding.weights import packaged_path


def make_model(folder: Path, *, dimension: int = 32, seed: int = 1) -> Path:
    """A folder with a model of one layer, of this many dimensions; another seed, other weights."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    cast("Any", torch).manual_seed(seed)  # torch types it only in part, and so does transformers
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=dimension,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * dimension,
        max_position_embeddings=64,
    )
    bare = folder / "bare"
    parts: list[Any] = [BertModel(config), cast("Any", AutoTokenizer).from_pretrained(packaged_path())]
    for part in parts:
        part.save_pretrained(bare)
    transformer = Transformer(str(bare), max_seq_length=64)
    made = folder / f"tiny-{dimension}-{seed}"
    SentenceTransformer(modules=[transformer, Pooling(dimension)], device="cpu").save(str(made))
    return made
