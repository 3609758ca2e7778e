"""BERT and its relatives: their named sizes, and the options that each family sets."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple


class Size(NamedTuple):
    """A named size; its feed-forward layer is four times as wide as the encoder."""

    layers: int
    width: int
    heads: int | None = None  # None: one for each 64 of the width
    changes: Mapping[str, Any] = {}  # other values of the configuration


@dataclasses.dataclass(frozen=True)
class ModelFamily:
    """A family of models.

    Attributes:
      values: Values of the configuration that all sizes share and that differ from BERT's.
      sizes: Sizes in addition to, or instead of, those in SIZES.
      pad_id: Id of padding in its published vocabularies.
    """

    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, Size] = dataclasses.field(default_factory=dict)
    pad_id: int = 0


# The published sizes of BERT (Turc et al. 2019, Devlin et al. 2018).
SIZES = {
    "debug": Size(1, 64),  # ours, for trials
    "tiny": Size(2, 128),
    "mini": Size(4, 256),
    "small": Size(4, 512),
    "medium": Size(8, 512),
    "base": Size(12, 768),
    "large": Size(24, 1024),
}

# Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training".
_GPT = {
    "causal": True,
    "type_vocab_size": 0,
    "embedding_norm": False,
    "layer_norm_eps": 1e-5,
    "pooler_act": None,
    "vocab_transform": False,
}

_ROBERTA = {  # Liu et al. 2019, arXiv 1907.11692
    "model_type": "roberta",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "position_offset": 2,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu_erf",
    "pooler_dropout": 0.1,
}

# By model_type, which is also the prefix of their names.
FAMILIES = {
    "bert": ModelFamily(),
    "roberta": ModelFamily(_ROBERTA, pad_id=1),
    # Conneau et al. 2019, arXiv 1911.02116
    "xlm-roberta": ModelFamily(
        _ROBERTA | {"model_type": "xlm-roberta", "vocab_size": 250_002}, pad_id=1
    ),
    # Martin et al. 2019, arXiv 1911.03894
    "camembert": ModelFamily(
        _ROBERTA | {"model_type": "camembert", "vocab_size": 32_005}, pad_id=1
    ),
    "mpnet": ModelFamily(  # Song et al. 2020, arXiv 2004.09297
        {
            "model_type": "mpnet",
            "vocab_size": 30527,
            "max_position_embeddings": 514,
            "position_offset": 2,
            "relative_positions": True,
            "type_vocab_size": 0,
            "layer_norm_eps": 1e-5,
            "hidden_act": "gelu_erf",
            "pooler_dropout": 0.1,
        },
        pad_id=1,
    ),
    "distilbert": ModelFamily(  # Sanh et al. 2019, arXiv 1910.01108
        {
            "model_type": "distilbert",
            "type_vocab_size": 0,
            "hidden_act": "gelu_erf",
            "pooler_act": "relu",
            "head_dropout": 0.2,
        },
        {"base": Size(6, 768)},
    ),
    "albert": ModelFamily(  # Lan et al. 2019, arXiv 1909.11942, version 2
        {
            "model_type": "albert",
            "vocab_size": 30000,
            "embedding_size": 128,
            "shared_layers": True,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "head_dropout": 0.1,
        },
        {"xlarge": Size(24, 2048, 16), "xxlarge": Size(12, 4096, 64)},
    ),
    "modernbert": ModelFamily(  # Warner et al. 2024, arXiv 2412.13663
        {
            "model_type": "modernbert",
            "vocab_size": 50368,
            "max_position_embeddings": 8192,
            "type_vocab_size": 0,
            "rope_theta": 160_000.0,
            "local_rope_theta": 10_000.0,
            "local_attention": 128,
            "global_every": 3,
            "gated": True,
            "hidden_act": "gelu_erf",
            "linear_bias": False,
            "norm_bias": False,
            "layer_norm_eps": 1e-5,
            "pre_norm": True,
            "first_norm": False,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "pooler_act": None,
            "head_transform": True,
            "transform_bias": False,
        },
        {
            # A gate adds a half to a feed-forward layer, whose width is less in return. Four layers
            # are two that are global and two that are local.
            name: Size(max(4, layers), width, changes={"intermediate_size": width * 3 // 2})
            for name, (layers, width, *_) in SIZES.items()
        }
        | {
            "base": Size(22, 768, changes={"intermediate_size": 1152}),
            "large": Size(28, 1024, changes={"intermediate_size": 2624}),
        },
        pad_id=50283,
    ),
    "nomic_bert": ModelFamily(  # Nussbaum et al. 2024, arXiv 2402.01613
        {
            "model_type": "nomic_bert",
            "vocab_size": 30528,
            "max_position_embeddings": 2048,
            "rope_theta": 1000.0,
            "gated": True,
            "hidden_act": "silu",
            "linear_bias": False,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    ),
    "openai-gpt": ModelFamily(_GPT | {"model_type": "openai-gpt", "vocab_size": 40478}),
    "gpt2": ModelFamily(  # Radford et al. 2019
        _GPT
        | {
            "model_type": "gpt2",
            "vocab_size": 50257,
            "max_position_embeddings": 1024,
            "pre_norm": True,
        },
        {
            "small": Size(12, 768),
            "medium": Size(24, 1024),
            "large": Size(36, 1280, 20),
            "xl": Size(48, 1600, 25),
        },
        pad_id=50256,
    ),
    "bart": ModelFamily(  # Lewis et al. 2019, arXiv 1910.13461
        {
            "model_type": "bart",
            "vocab_size": 50265,
            "max_position_embeddings": 1026,
            "position_offset": 2,
            "type_vocab_size": 0,
            "layer_norm_eps": 1e-5,
            "hidden_act": "gelu_erf",
            "pooler_dropout": 0.1,
            "vocab_transform": False,
        },
        # Half of each size's layers are the decoder.
        {
            name: Size(max(2, layers), width, changes={"num_decoder_layers": max(2, layers) // 2})
            for name, (layers, width, *_) in SIZES.items()
        },
        pad_id=1,
    ),
    "electra": ModelFamily(  # Clark et al. 2020, arXiv 2003.10555
        {
            "model_type": "electra",
            "hidden_act": "gelu_erf",
            "pooler_act": "gelu_erf",
            "pooler_dropout": 0.1,
            "generator_size": 0.25,
        },
        {
            "small": Size(12, 256, 4, {"embedding_size": 128}),
            "base": Size(12, 768, 12, {"generator_size": 1 / 3}),
        },
    ),
}
