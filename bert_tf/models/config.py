"""The configuration of a BERT model: bert_config.json as a dataclass."""

import dataclasses
import math
from collections.abc import Mapping, Set
from typing import Annotated, Any, ClassVar, Self

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.families import FAMILIES, SIZES
from bert_tf.models.field_checks import Count, Flag, Positive, Rate, Size, whole
from pipelines.common.errors import InputError

_Layers = Annotated[int, whole(most=10_000)]  # a larger number is a mistake
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "silu", "tanh")
# Keys of released configurations that do not affect the encoder.
_FOREIGN_KEYS = frozenset(
    """
    architectures attention_probs_dropout classifier_dropout directionality do_lower_case
    finetuning_task gradient_checkpointing id2label label2id language name num_labels
    output_attentions output_hidden_states output_past pad_token_id pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    torch_dtype torchscript transformers_version use_bfloat16 use_cache _name_or_path _num_labels
    """.split()
)


def _option(default: Any) -> Any:
    """A field that bert_config.json contains only if it differs from BERT's value."""
    return dataclasses.field(default=default, metadata={"option": True})


@dataclasses.dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """The configuration of a BERT or a related model; one field for each key of bert_config.json.

    The defaults are those of BERT-Base uncased. The options (the fields from `causal` on) describe
    related models.

    Raises:
      InputError: A value is invalid, alone or in combination with another.
    """

    vocab_size: Size = 30522  # number of tokens
    hidden_size: Size = 768  # width of the encoder (H)
    num_hidden_layers: _Layers = 12  # Transformer blocks (L), of the decoder too
    num_attention_heads: Size = 12  # attention heads (A); hidden_size must be a multiple
    intermediate_size: Size = 3072  # width of the feed-forward layer, 4 H in the paper
    hidden_act: str = "gelu"  # one of ACTIVATIONS; "gelu" uses tanh, as in google-research/bert
    hidden_dropout_prob: Rate = 0.1  # dropout rate of embeddings and of sub-layer outputs
    attention_probs_dropout_prob: Rate = 0.1  # dropout rate of attention probabilities
    max_position_embeddings: Size = 512  # rows of the position table
    type_vocab_size: Count = 2  # segment embeddings; 0: none, and input_type_ids are ignored
    initializer_range: Positive = 0.02  # standard deviation of the truncated normal
    layer_norm_eps: Positive = 1e-12  # added to the variance
    causal: Flag = _option(False)  # left-to-right attention (section 5.1)
    model_type: str = _option("bert")  # a key of FAMILIES, determines foreign names of weights
    embedding_size: Size | None = _option(None)  # width before a projection; None: no projection
    embedding_norm: Flag = _option(True)  # LayerNorm of embeddings (none in GPT)
    position_offset: Count = _option(0)  # position rows before the first token's (RoBERTa: 2)
    relative_positions: Flag = _option(False)  # scores by distance, shared by all layers (MPNet)
    rope_theta: Positive | None = _option(None)  # base of rotary positions, in place of a table
    local_rope_theta: Positive | None = _option(None)  # that of local layers; None: the same
    local_attention: Count = _option(0)  # tokens that a token of a local layer sees, besides itself
    global_every: Size = _option(1)  # one in so many layers, from the first on, is not local
    gated: Flag = _option(False)  # feed-forward networks with a gate (Shazeer 2020)
    linear_bias: Flag = _option(True)  # in attention and feed-forward networks
    norm_bias: Flag = _option(True)  # in all norms
    shared_layers: Flag = _option(False)  # one block for all layers (ALBERT)
    num_decoder_layers: Count = _option(0)  # the last layers, if they are a decoder (BART)
    pre_norm: Flag = _option(False)  # LayerNorm before each sub-layer and after the last (GPT-2)
    first_norm: Flag = _option(True)  # with pre_norm: that before the first attention
    vocab_transform: Flag = _option(True)  # dense, norm, bias at the output vocabulary (not in GPT)
    head_transform: Flag = _option(False)  # dense and norm in the heads of tasks, too (ModernBERT)
    transform_bias: Flag = _option(True)  # in the dense layer of both
    pooler_act: str | None = _option("tanh")  # None: no pooler; a token's vector is used
    pool_first: Flag = _option(False)  # the first token's vector, even if causal (transformers)
    pool_mean: Flag = _option(False)  # the mean of the vectors of all tokens
    pooler_dropout: Rate = _option(0.0)  # dropout before the pooler, as in RoBERTa's heads
    head_dropout: Rate | None = _option(None)  # dropout of task heads; None: hidden_dropout_prob
    generator_size: Positive | None = _option(None)  # ELECTRA's generator: width / ours

    title: ClassVar[str] = "BERT"
    foreign_keys: ClassVar[Set[str]] = _FOREIGN_KEYS
    foreign_values: ClassVar[Mapping[str, Any]] = {
        "is_decoder": False,
        "position_embedding_type": "absolute",
        "pruned_heads": {},
    }

    def __post_init__(self):
        super().__post_init__()
        self.check_choice("hidden_act", ACTIVATIONS)
        if self.pooler_act is not None:
            self.check_choice("pooler_act", ACTIVATIONS)
        self.check_choice("model_type", tuple(FAMILIES))
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}."
            )
        if self.position_offset >= self.max_position_embeddings:
            raise InputError(
                f"position_offset {self.position_offset} leaves none of the "
                f"{self.max_position_embeddings} max_position_embeddings for a token."
            )
        self._check_positions()
        if self.num_decoder_layers:
            self._check_decoder()
        if self.pooler_act is None and self.pooler_dropout:
            raise InputError(
                f"pooler_dropout is {self.pooler_dropout}, but there is no pooler (pooler_act)."
            )

    def _check_positions(self) -> None:
        """Checks the options of positions, windows and gates."""
        everywhere = ("causal", "num_decoder_layers", "generator_size")
        for name, others in {
            "relative_positions": everywhere,
            "gated": everywhere,
            "rope_theta": (*everywhere, "position_offset"),
            "local_attention": (*everywhere, "shared_layers", "relative_positions"),
        }.items():
            for other in others:
                if getattr(self, name) and getattr(self, other):
                    raise InputError(f"{name} does not go with {other}.")
        if self.local_attention % 2:
            raise InputError(f"local_attention is {self.local_attention}; it must be even.")
        if (self.global_every > 1 or self.local_rope_theta) and not self.local_attention:
            raise InputError("global_every and local_rope_theta need a local_attention.")
        if self.rope_theta and self.hidden_size // self.num_attention_heads % 2:
            raise InputError("rope_theta does not go with heads of an odd width.")
        if self.local_rope_theta and not self.rope_theta:
            raise InputError("local_rope_theta needs a rope_theta, that of the other layers.")

    @property
    def residual_range(self) -> float:
        """Standard deviation of the initial kernels whose outputs are added to their inputs.

        With `pre_norm` it is divided by the root of the number of additions, as in GPT-2 (Radford
        et al. 2019, section 2.3).
        """
        additions = 2 * self.num_hidden_layers if self.pre_norm else 1
        return self.initializer_range / math.sqrt(additions)

    def is_local(self, layer: int) -> bool:
        """Whether the tokens of a layer, from 0, see their neighbours only (local_attention)."""
        return self.local_attention > 0 and layer % self.global_every > 0

    def _check_decoder(self) -> None:
        if self.num_decoder_layers >= self.num_hidden_layers:
            raise InputError(
                f"num_decoder_layers {self.num_decoder_layers} leaves no layer of the "
                f"{self.num_hidden_layers} num_hidden_layers for the encoder."
            )
        for name in (
            *("causal", "shared_layers", "pre_norm", "embedding_size", "generator_size"),
            *("vocab_transform", "pool_first"),
        ):
            if getattr(self, name):
                raise InputError(f"{name} does not go with num_decoder_layers.")

    @classmethod
    def named(cls, name: str, **changes: Any) -> "BertConfig":
        """The configuration of a size such as "roberta-base"; an InputError if it is unknown."""
        prefix, _, size_name = name.rpartition("-")
        family = FAMILIES.get(prefix or "bert")
        sizes = {**SIZES, **family.sizes} if family else {}
        if prefix == "elmo":
            raise InputError(f"model {name!r} is an ELMo, not a BERT; use ElmoConfig.named.")
        if family is None or size_name not in sizes:
            relatives = [known for known in (*FAMILIES, "elmo") if known != "bert"]
            prefixes = ", ".join(f"{known}-" for known in relatives)
            raise InputError(
                f"model {name!r} is unknown; use {', '.join(sizes or SIZES)}, with the prefix "
                f"{prefixes} for a relative of BERT, or a file."
            )
        size = sizes[size_name]
        values = {
            "num_hidden_layers": size.layers,
            "hidden_size": size.width,
            "num_attention_heads": size.heads or size.width // 64,
            "intermediate_size": 4 * size.width,
        }
        return cls(**{**family.values, **values, **size.changes, **changes})

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from BERT's, by name."""
        options = [field for field in dataclasses.fields(self) if field.metadata.get("option")]
        values = {field.name: (getattr(self, field.name), field.default) for field in options}
        return {name: value for name, (value, berts) in values.items() if value != berts}

    def differences(self, *options: str) -> list[str]:
        """Differences from a BERT with these options, such as "position_offset 2"."""
        found = [f"{name} {value!r}" for name, value in self.options.items() if name not in options]
        typed = self.type_vocab_size or "type_vocab_size" in options
        return found if typed else [*found, "type_vocab_size 0"]

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of bert_config.json; options only if they differ from BERT's."""
        fields = [field for field in dataclasses.fields(self) if not field.metadata.get("option")]
        return {field.name: getattr(self, field.name) for field in fields} | self.options

    @property
    def num_blocks(self) -> int:
        """Number of layers with weights of their own: one if they are shared."""
        return 1 if self.shared_layers else self.num_hidden_layers

    @property
    def pools_last(self) -> bool:
        """Whether the pooled output is the last token's, which alone attends to all others."""
        return (self.causal and not self.pool_first) or self.num_decoder_layers > 0

    @property
    def embedding_width(self) -> int:
        """Width of the embeddings, before a projection to hidden_size."""
        return self.embedding_size or self.hidden_size

    @property
    def task_dropout(self) -> float:
        """Dropout rate of the heads of tasks."""
        return self.hidden_dropout_prob if self.head_dropout is None else self.head_dropout

    @property
    def generator(self) -> "BertConfig | None":
        """The configuration of ELECTRA's generator (Clark et al. 2020, section 3.2), if any.

        It has our depth and embeddings, and `generator_size` of our width.
        """
        if self.generator_size is None:
            return None
        heads = max(1, round(self.generator_size * self.num_attention_heads))
        width = heads * max(1, round(self.generator_size * self.hidden_size / heads))
        return dataclasses.replace(
            self,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            embedding_size=None if width == self.embedding_width else self.embedding_width,
            generator_size=None,
        )

    @property
    def max_seq_length(self) -> int:
        """Maximum number of tokens of a sequence."""
        return self.max_position_embeddings - self.position_offset

    @property
    def default_pad_id(self) -> int:
        """Padding id in the published vocabularies of the family."""
        return FAMILIES[self.model_type].pad_id

    def with_dropout(self, rate: float) -> Self:
        """A copy with another dropout rate wherever it has one."""
        of_pooler = self.pooler_dropout or FAMILIES[self.model_type].values.get("pooler_dropout")
        return dataclasses.replace(
            self,
            hidden_dropout_prob=rate,
            attention_probs_dropout_prob=rate,
            pooler_dropout=rate if of_pooler else 0.0,
            head_dropout=None if self.head_dropout is None else rate,
        )

    def check_length(self, length: int | None) -> None:
        """Raises InputError if sequences of `length` tokens exceed the positions."""
        if length is not None and length > self.max_seq_length:
            raise InputError(
                f"{length} tokens exceed the {self.max_seq_length} positions; cut the sequences "
                "(max_seq_length of the tokenizer)."
            )
