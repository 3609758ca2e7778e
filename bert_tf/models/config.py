"""The configuration of a BERT model: bert_config.json as a dataclass."""

import dataclasses
import math
from typing import Any

from pipelines.common import json_files
from pipelines.common.errors import InputError

# No model is larger; a number beyond these is a mistake that would not end.
_MOST_LAYERS = 10_000
_LARGEST_SIZE = (1 << 31) - 1
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "tanh")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """One field for each key of bert_config.json, defaults as BERT-Base uncased."""

    vocab_size: int = 30522  # tokens
    hidden_size: int = 768  # width of the encoder (H)
    num_hidden_layers: int = 12  # Transformer blocks (L)
    num_attention_heads: int = 12  # heads (A); hidden_size must be a multiple
    intermediate_size: int = 3072  # width of the feed-forward layer, 4 H in the paper
    hidden_act: str = "gelu"  # of ACTIVATIONS; "gelu" has tanh, as in google-research/bert
    hidden_dropout_prob: float = 0.1  # of embeddings and of each sub-layer's output
    attention_probs_dropout_prob: float = 0.1  # of attention probabilities
    max_position_embeddings: int = 512  # the longest sequence
    type_vocab_size: int = 2  # segments
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    layer_norm_eps: float = 1e-12  # added to the variance
    causal: bool = False  # left-to-right: nothing attends to what follows (paper, section 5.1)

    def __post_init__(self):
        for name in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is {value!r}; it must be a whole number of 1 or more.")
            most = _MOST_LAYERS if name == "num_hidden_layers" else _LARGEST_SIZE
            if value > most:
                raise InputError(f"{name} is too large; it must be {most:,} or less.")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise InputError(f"{name} is {value!r}; it must be from 0 to below 1.")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise InputError(f"{name} is {value!r}; it must be a number above 0.")
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}."
            )
        if not isinstance(self.causal, bool):
            raise InputError(f"causal is {self.causal!r}; it must be true or false.")
        if self.hidden_act not in ACTIVATIONS:
            raise InputError(
                f"hidden_act {self.hidden_act!r} is unknown; use one of {', '.join(ACTIVATIONS)}."
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any], name: str = "the configuration") -> "BertConfig":
        """Makes a configuration of the keys of bert_config.json.

        Keys that other programs add are let through if they are known.

        Raises:
          InputError: an unknown key, or a value that makes no sense.
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(values.keys() - fields - _FOREIGN_KEYS)
        if unknown:
            raise InputError(
                f"{name}: unknown key {', '.join(map(repr, unknown))}; the keys are "
                f"{', '.join(sorted(fields))}."
            )
        try:
            return cls(**{key: value for key, value in values.items() if key in fields})
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    @classmethod
    def load(cls, path: str) -> "BertConfig":
        """Reads a bert_config.json.

        Raises:
          InputError: the file is missing, not JSON, or `from_dict` fails.
        """
        return cls.from_dict(json_files.read(path, dict[str, Any]), path)

    @classmethod
    def named(cls, name: str, **changes: Any) -> "BertConfig":
        """A published size, from "tiny" (2/128) to "large" (24/1024).

        Raises:
          InputError: the name is unknown.
        """
        if name not in SIZES:
            raise InputError(f"model {name!r} is unknown; use {', '.join(SIZES)}, or a file.")
        layers, hidden = SIZES[name]
        size = {
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": hidden // 64,
            "intermediate_size": 4 * hidden,
        }
        return cls(**(size | changes))

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of bert_config.json; `causal` only where it is so."""
        values = dataclasses.asdict(self)
        return values if self.causal else {k: v for k, v in values.items() if k != "causal"}

    def save(self, path: str) -> None:
        """Writes a bert_config.json."""
        json_files.write(path, self.to_dict())

    def check_segments(self, segments: int, place: str) -> None:
        """Raises InputError where sequences of so many segments exceed the segment table.

        Args:
          segments: that the sequences have.
          place: where they come from.
        """
        if segments > self.type_vocab_size:
            raise InputError(
                f"{place}: has sequences of {segments} segments, but the model's type_vocab_size "
                f"is {self.type_vocab_size}. Use a model with {segments}, or examples of single "
                "texts (in pre-training, --objective=mlm)."
            )

    @property
    def parameters(self) -> int:
        """Weights of the encoder, its pooler included."""
        hidden, inner = self.hidden_size, self.intermediate_size
        tables = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        attention = 4 * (hidden * hidden + hidden)
        block = attention + 2 * hidden * inner + hidden + inner + 4 * hidden
        pooler = hidden * hidden + hidden
        return (tables + 2) * hidden + self.num_hidden_layers * block + pooler


# Layers and width of the published sizes (Turc et al. 2019, Devlin et al. 2018).
SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}

# Keys of released configurations that do not concern the encoder.
_FOREIGN_KEYS = frozenset(
    [
        "architectures",
        "attention_probs_dropout",
        "classifier_dropout",
        "directionality",
        "do_lower_case",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "is_decoder",
        "label2id",
        "language",
        "model_type",
        "name",
        "num_labels",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "pad_token_id",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "position_embedding_type",
        "pruned_heads",
        "torch_dtype",
        "torchscript",
        "transformers_version",
        "use_bfloat16",
        "use_cache",
        "_name_or_path",
        "_num_labels",
    ]
)
