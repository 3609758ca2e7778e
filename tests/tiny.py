"""One small configuration for all tests."""

from bert_tf.models.config import BertConfig


def tiny_config(vocab_size: int = 50, **changes) -> BertConfig:
    """A BERT of 2 layers, 32 wide, with 2 heads and 64 positions, apart from `changes`."""
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    return BertConfig(vocab_size, **(sizes | changes))
