"""Experiments with models that learn next to nothing, in a minute and not in ten."""

import dataclasses
import os

from bert_tf.experiments import own_tasks, plan
from bert_tf.experiments.plan import Plan, Request
from bert_tf.experiments.pretraining_jobs import Corpus, Vocabulary
from bert_tf.experiments.scale import Inputs, Scale
from bert_tf.experiments.settings import STUDIES, ExperimentSettings
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from pipelines.common import json_files

BUDGET, VOCABULARY = "10m", 120


def begin(corpus, tasks, output):
    """A request, and the folder of its output with a plan of the smallest scale in it.

    Args:
      corpus: a file of a few documents.
      tasks: folder for tasks that are made of it.
      output: the folder.
    """
    settings = ExperimentSettings(budget=BUDGET, vocab_size=VOCABULARY)
    request = Request(settings, Corpus(corpus))
    os.makedirs(output)
    rest, found = own_tasks.make(request.corpus, tasks)
    found = tuple(dataclasses.replace(task, rows=(48, 16), tokens=12) for task in found[::2])
    inputs = Inputs(rest, rest, Vocabulary(rest, VOCABULARY), found)
    speed = Speed(((64, 1e11),), 1e10, VOCABULARY, 32)
    scale = Scale(Size(1, 64), 10, 8, 32, (1, 2), 48, speed)
    made = Plan(inputs, scale, "float32", STUDIES)
    json_files.write(f"{output}/{plan.PLAN}", dataclasses.asdict(made))
    json_files.write(f"{output}/experiments.json", request.identity())
    return request, output
