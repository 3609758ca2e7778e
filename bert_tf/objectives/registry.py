"""The objectives of pre-training by name. To add one, write a module and add it here."""

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from bert_tf.objectives.left_to_right import LeftToRight
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from pipelines.pretraining.settings import Objective

OBJECTIVES: dict[Objective, type[PretrainingObjective]] = {
    Objective.MLM_NSP: MaskedLMNextSentence,
    Objective.MLM: MaskedLM,
    Objective.LEFT_TO_RIGHT: LeftToRight,
    Objective.BIDIRECTIONAL_LM: BidirectionalLM,
}
