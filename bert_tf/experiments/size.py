"""Sizes of encoders."""

import dataclasses

from bert_tf.models.config import BertConfig


@dataclasses.dataclass(frozen=True)
class Size:
    """A size of the encoder: layers and width; 64 wide heads, a feed-forward layer of 4 widths."""

    layers: int
    width: int

    def __str__(self) -> str:
        return f"{self.layers}x{self.width}"

    def config(self, vocab_size: int, **changes: bool) -> BertConfig:
        """BERT of this size."""
        return BertConfig(
            vocab_size=vocab_size,
            num_hidden_layers=self.layers,
            hidden_size=self.width,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
            **changes,
        )
