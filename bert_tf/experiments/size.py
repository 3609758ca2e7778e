"""Sizes of the encoders of the experiments."""

import dataclasses

from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig

_FILTERS = 5  # kinds of convolutions over characters
_PREDICTED_WORDS = 8192  # others count as unknown


@dataclasses.dataclass(frozen=True)
class Size:
    """A size of the encoder: layers and width; 64 wide heads, a feed-forward layer of 4 widths."""

    layers: int
    width: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}"

    def config(self, vocab_size: int) -> BertConfig:
        """BERT of this size."""
        return BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=self.layers,
            hidden_size=self.width,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
        )

    def elmo_config(self, vocab_size: int) -> ElmoConfig:
        """An ELMo whose vectors are as wide: two LSTMs a direction, with projections."""
        return ElmoConfig(
            vocab_size=vocab_size,
            filters=ElmoConfig.filters[:_FILTERS],
            num_highway_layers=1,
            cell_size=self.width,  # about as many weights as the blocks of that BERT
            projection_size=self.width // 2,
            softmax_size=_PREDICTED_WORDS,
        )
