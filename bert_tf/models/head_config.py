"""Configuration of the head of a task, including the feature-based approach (paper, 5.3)."""

import dataclasses
import enum
from typing import Annotated, Any

from bert_tf.models.field_checks import FieldChecks, Flag, whole
from pipelines.common.errors import InputError

# A larger number is a mistake.
MAX_LAYERS = 100
MAX_WIDTH = 1 << 16


class HeadLayers(enum.StrEnum):
    """The outputs of the encoder that a head reads (Table 7)."""

    LAST = "last"
    EMBEDDINGS = "embeddings"
    SECOND_TO_LAST = "second_to_last"
    WEIGHTED_LAST_4 = "weighted_last_4"  # a sum with learned weights
    CONCAT_LAST_4 = "concat_last_4"
    WEIGHTED_ALL = "weighted_all"  # all layers except the embeddings
    WEIGHTED_EACH = "weighted_each"  # all layers and the embeddings, as in ELMo


class Pooling(enum.StrEnum):
    """How the vectors of a text's tokens become one vector."""

    MEAN = "mean"  # over the tokens, [CLS] and [SEP] too
    CLS = "cls"  # the vector of the first token
    POOLER = "pooler"  # the pooler's output
    MAX = "max"  # over the tokens, in each dimension


PLAIN_POOLING = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)  # without weights of its own
DENSE_ACTIVATIONS = ("tanh", "identity", "relu", "gelu_erf")


@dataclasses.dataclass(frozen=True)
class HeadConfig(FieldChecks):
    """The head of a task; by default that of the paper, a linear map of the last layer.

    Attributes:
      layers: The layers that it reads.
      bilstm_layers: Number of bidirectional LSTM layers below the linear map.
      bilstm_width: Width of each direction.
      both_orders: Whether the logits of a pair are the sums of those of both orders of its texts
        (`bert_tf.models.orders`).
      pooling: What the vector of a text is, for heads of vectors; one of `PLAIN_POOLING`.
      dense_width: Width of a linear map of that vector, and thus of the result; 0: without one.
      dense_act: What follows the linear map; one of `DENSE_ACTIVATIONS`.
      crf: Whether the logits of tokens are the emissions of a conditional random field, whose
        transitions the head learns, too.

    Raises:
      InputError: A value is invalid.
    """

    layers: HeadLayers = HeadLayers.LAST
    bilstm_layers: Annotated[int, whole(least=0, most=MAX_LAYERS)] = 0
    bilstm_width: Annotated[int, whole(most=MAX_WIDTH)] = 768
    both_orders: Flag = False
    pooling: Pooling = Pooling.MEAN
    dense_width: Annotated[int, whole(least=0, most=MAX_WIDTH)] = 0
    dense_act: str = DENSE_ACTIVATIONS[0]
    crf: Flag = False

    def __post_init__(self):
        super().__post_init__()
        self.check_choice("layers", tuple(HeadLayers))
        self.check_choice("pooling", PLAIN_POOLING)
        self.check_choice("dense_act", DENSE_ACTIVATIONS)
        object.__setattr__(self, "layers", HeadLayers(self.layers))
        object.__setattr__(self, "pooling", Pooling(self.pooling))

    @property
    def is_plain(self) -> bool:
        """Whether it has nothing but a linear map of the last layer, or the pooling."""
        return not (self.has_body or self.both_orders or self.crf)

    @property
    def has_body(self) -> bool:
        """Whether it has more than a linear map of the last layer."""
        return self.layers is not HeadLayers.LAST or self.bilstm_layers > 0

    def reads_pooled(self, per_token: bool) -> bool:
        """Whether it reads the pooled output, rather than those of tokens."""
        return not per_token and not self.bilstm_layers

    def check_task(self, per_token: bool, task: str) -> None:
        """Raises InputError if it needs vectors of tokens and the task has none."""
        if self.reads_pooled(per_token) and self.has_body:
            raise InputError(
                f"{task}: is a task on whole texts, which reads the pooled output of the last "
                f"layer; to read {self.layers} outputs of tokens, add a BiLSTM (--bilstm_layers)."
            )

    def indices(self, depth: int) -> tuple[int, ...]:
        """The numbers of the layers that are read, of `depth`, ascending; 0: the embeddings."""
        last_4 = tuple(range(max(1, depth - 3), depth + 1))
        return {
            HeadLayers.LAST: (depth,),
            HeadLayers.EMBEDDINGS: (0,),
            HeadLayers.SECOND_TO_LAST: (depth - 1,),
            HeadLayers.WEIGHTED_LAST_4: last_4,
            HeadLayers.CONCAT_LAST_4: last_4,
            HeadLayers.WEIGHTED_ALL: tuple(range(1, depth + 1)),
            HeadLayers.WEIGHTED_EACH: tuple(range(depth + 1)),
        }[self.layers]

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON values."""
        names = {"layers": str(self.layers), "pooling": str(self.pooling)}
        values = dataclasses.asdict(self) | names
        if self.pooling is Pooling.MEAN:
            del values["pooling"]
        if not self.dense_width:
            del values["dense_width"], values["dense_act"]
        return {name: value for name, value in values.items() if value is not False}
