"""Experiments with models that learn next to nothing, which take a minute rather than ten."""

import dataclasses
import os

from bert_tf.experiments import own_tasks, plan
from bert_tf.experiments.plan import ExperimentPlan, ModelSize
from bert_tf.experiments.settings import STUDIES, ExperimentSettings
from pipelines.common import json_files

BUDGET, VOCABULARY = "10m", 120


def begin(corpus, tasks, output, seeds=(1, 2)):
    """Settings, and the folder of their output with a plan of the smallest scale in it.

    Args:
      corpus: a file of a few documents.
      tasks: folder for tasks made from it.
      output: the folder.
      seeds: seeds of each measurement.
    """
    settings = ExperimentSettings(corpus=corpus, budget=BUDGET, vocab_size=VOCABULARY)
    os.makedirs(output)
    rest, found = own_tasks.make(corpus, "auto", tasks)
    counts = {"train_examples": 48, "dev_examples": 16, "tokens": 12}
    made = ExperimentPlan(
        folder=output,
        settings=dataclasses.replace(settings, max_seq_length=32),
        studies=STUDIES,
        corpus=rest,
        corpus_format="sentences",
        word_corpus=rest,
        tasks=tuple(dataclasses.replace(task, **counts) for task in found[::2]),
        precision="float32",
        size=ModelSize(1, 64),
        weights=10_000,
        steps=10,
        batch_size=8,
        seeds=seeds,
        max_examples=48,
    )
    plan.write(made)
    json_files.write(f"{output}/experiments.json", settings.describe())
    return settings, output
