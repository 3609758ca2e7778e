"""The studies by name: a further one is a file, and a line here."""

from bert_tf.experiments.studies.base import Study
from bert_tf.experiments.studies.features import Features
from bert_tf.experiments.studies.intermediate import Intermediate
from bert_tf.experiments.studies.learning_curves import LearningCurves
from bert_tf.experiments.studies.masking import Masking
from bert_tf.experiments.studies.pretraining_tasks import PretrainingTasks
from bert_tf.experiments.studies.sizes import Sizes
from bert_tf.experiments.studies.steps import Steps

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        PretrainingTasks(),
        Sizes(),
        Steps(),
        Masking(),
        Features(),
        Intermediate(),
        LearningCurves(),
    )
}
