"""ELMo (Peters et al. 2018, arXiv 1802.05365): words of characters, LSTMs in both directions."""

from bert_tf.models.elmo.encoder import ElmoEncoder, WordHead

__all__ = ["ElmoEncoder", "WordHead"]
