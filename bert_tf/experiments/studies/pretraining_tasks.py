"""What pre-training brings: section 5.1, Table 5, and the architectures of Figure 3."""

import dataclasses
from typing import Any

from bert_tf.experiments.jobs import ModelJob
from bert_tf.experiments.pretraining_jobs import Examples, Pretraining, Untrained
from bert_tf.experiments.scale import Inputs, Scale, tuned
from bert_tf.experiments.scores import Finding, finding
from bert_tf.experiments.studies.base import (
    Cell,
    PaperTable,
    Rows,
    Scores,
    Study,
    pairs_of,
    pretrained,
)
from bert_tf.models.head_config import HeadConfig, HeadLayers
from pipelines.pretraining.settings import Objective
from pipelines.tokenizers.settings import VocabularyKind

_WORDS = 60_000  # of an ELMo's vocabulary; others are unknown to it
_BERT, _NO_NSP = "BERT", "no NSP"
_LTR, _LTR_BILSTM = "left-to-right, no NSP (as GPT)", "left-to-right, no NSP, + BiLSTM"
_ELMO = "ELMo, features under a BiLSTM"
_NOTHING, _STATIC = "not pre-trained", "static embeddings under a BiLSTM"


class PretrainingTasks(Study):
    """BERT without its parts, and against its forerunners."""

    name = "pretraining"
    title = "What pre-training brings (Table 5, Figure 3)"
    question = (
        "Does it help to read both ways, and to predict the next sentence? Every model has seen "
        "the same text, for as many steps."
    )
    paper = PaperTable(
        "Table 5, dev: BERT-Base",
        ("MNLI-m", "QNLI", "MRPC", "SST-2", "SQuAD F1"),
        {
            "BERT": (84.4, 88.4, 86.7, 92.7, 88.5),
            "no NSP": (83.9, 84.9, 86.5, 92.6, 87.9),
            "LTR & no NSP": (82.1, 84.3, 77.5, 92.1, 77.8),
            "+ BiLSTM": (82.1, 84.1, 75.7, 91.6, 84.9),
        },
    )

    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """A model in each row, a task in each column; several of the model where there is time."""
        each = [_models(inputs, scale, seed) for seed in scale.pretraining_seeds]
        return {
            label: {
                task.name: Cell(
                    tuple(
                        tuned(scale, task, init, **options)
                        for init, options in (models[label] for models in each)
                    )
                )
                for task in inputs.tasks
            }
            for label in each[0]
        }

    def findings(self, scores: Scores) -> list[Finding]:
        """Each part of BERT against what is there without it."""
        return [
            finding("Next-sentence prediction helps", pairs_of(scores, _BERT, _NO_NSP)),
            finding("Reading both ways helps", pairs_of(scores, _NO_NSP, _LTR)),
            finding(
                "A BiLSTM on top of a left-to-right model does not make up for it",
                pairs_of(scores, _NO_NSP, _LTR_BILSTM),
            ),
            finding("BERT is better than features of an ELMo", pairs_of(scores, _BERT, _ELMO)),
            finding("Pre-training helps", pairs_of(scores, _BERT, _NOTHING)),
            finding(
                "Vectors that depend on their context are better than static ones",
                pairs_of(scores, _BERT, _STATIC),
            ),
        ]


def _models(inputs: Inputs, scale: Scale, seed: int) -> dict[str, tuple[ModelJob, dict[str, Any]]]:
    """The model of each row, pre-trained with a seed, and how it is fine-tuned."""
    kept = KEPT if seed == scale.pretraining_seeds[0] else ()  # other studies read these
    bert = pretrained(inputs, scale, keep_at=kept, seed=seed)
    right = pretrained(inputs, scale, Objective.LEFT_TO_RIGHT, keep_at=kept, seed=seed)
    width = scale.bilstm_width
    elmo_head = {"head": HeadConfig(HeadLayers.WEIGHTED_EACH, 2, width), "frozen": True}
    static_head = {"head": HeadConfig(HeadLayers.EMBEDDINGS, 2, width), "frozen": True}
    return {
        _BERT: (bert, {}),
        _NO_NSP: (pretrained(inputs, scale, Objective.MLM, seed=seed), {}),
        _LTR: (right, {}),
        _LTR_BILSTM: (right, {"head": HeadConfig(HeadLayers.LAST, 1, width)}),
        _ELMO: (_elmo(inputs, scale, seed), elmo_head),
        _NOTHING: (Untrained(inputs.vocabulary, scale.main, seed), {}),
        _STATIC: (bert, static_head),
    }


def _elmo(inputs: Inputs, scale: Scale, seed: int) -> Pretraining:
    """The job that pre-trains an ELMo: on as many sequences, of words in place of their pieces."""
    words = dataclasses.replace(
        inputs.vocabulary,
        corpus=inputs.words,
        size=_WORDS,
        own=None,
        tokenizer=VocabularyKind.WORD,
    )
    examples = Examples(inputs.corpus, words, Objective.BIDIRECTIONAL_LM, scale.length)
    rate = scale.pretraining_rate
    return Pretraining(examples, scale.main, scale.steps, scale.batch_size, rate, seed=seed)


# Shares of the steps whose checkpoints the study of steps fine-tunes.
KEPT = (0.1, 0.2, 0.5)
