"""The objectives of pre-training by name. To add one, write a module and add it here."""

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import (
    LeftToRight,
    MaskedLM,
    MaskedLMNextSentence,
    MaskedLMSentenceOrder,
)
from bert_tf.objectives.replaced_token import ReplacedToken
from pipelines.pretraining.settings import Objective

OBJECTIVES: dict[Objective, type[PretrainingObjective]] = {
    Objective.MLM_NSP: MaskedLMNextSentence,
    Objective.MLM_SOP: MaskedLMSentenceOrder,
    Objective.MLM: MaskedLM,
    Objective.REPLACED_TOKEN: ReplacedToken,
    Objective.DENOISING: Denoising,
    Objective.LEFT_TO_RIGHT: LeftToRight,
    Objective.BIDIRECTIONAL_LM: BidirectionalLM,
}
