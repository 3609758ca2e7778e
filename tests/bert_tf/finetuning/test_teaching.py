"""Fine-tuning that learns from a fine-tuned teacher."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.finetuning import sweep, task_data
from bert_tf.finetuning.teaching import Teacher
from pipelines.common.errors import InputError
from tests.bert_tf.labelled_data import make_tags, make_texts, settings_of, tune

pytestmark = pytest.mark.more


def test_a_student_learns_texts_with_and_without_labels(tmp_path, init):
    report, teacher = tune(tmp_path, init, "classification", make_texts)
    rows = (tmp_path / "data/dev.tsv").read_text().splitlines()[1:]
    more = [{"text": row.split("\t")[1]} for row in rows] + [{"text": ""}]
    (tmp_path / "more.json").write_text(json.dumps({"dev": more}))
    few = settings_of(
        init, "classification", f"{tmp_path}/data", teacher=teacher,
        unlabelled=f"{tmp_path}/more.json#dev", train_examples=16, epochs=4.0,
    )  # fmt: skip
    taught = sweep.finetune(few, f"{tmp_path}/student", f"{tmp_path}/cache", tensorboard=False)
    compared = taught["distillation"]
    assert compared["teacher"]["accuracy"] == report["metrics"]["median"]["accuracy"]
    assert compared["student"]["accuracy"] == taught["metrics"]["median"]["accuracy"]
    (counts,) = taught["examples"].values()
    assert counts["unlabelled"] == counts["dev"] == 64
    assert taught["notes"]["classification"]["training examples skipped"] == 1
    alone = dataclasses.replace(few, teacher=None, unlabelled=None)
    alone = sweep.finetune(alone, f"{tmp_path}/alone", f"{tmp_path}/cache", tensorboard=False)
    assert compared["student"]["accuracy"] > alone["metrics"]["median"]["accuracy"]
    alone = {"teacher": None, "unlabelled": None}
    for changes, name in ((alone, "teacher"), ({"unlabelled": None}, "unlabelled_sha256")):
        other = dataclasses.replace(few, **changes)
        with pytest.raises(InputError, match=f"of a run with other {name}"):
            sweep.finetune(other, f"{tmp_path}/student", f"{tmp_path}/cache", tensorboard=False)
    model = weights.read(teacher)
    shorter = [{**task, "max_seq_length": 8} for task in model.tasks]
    weights.write(dataclasses.replace(model, tasks=tuple(shorter)), f"{tmp_path}/shorter")
    other = dataclasses.replace(few, teacher=f"{tmp_path}/shorter")
    with pytest.raises(InputError, match=r"with other teacher: tasks\.\w+\.max_seq_length"):
        sweep.finetune(other, f"{tmp_path}/student", f"{tmp_path}/cache", tensorboard=False)


def test_on_tokens_a_teacher_reads_what_the_student_reads(tmp_path, init):
    _, teacher = tune(tmp_path, init, "ner", make_tags, epochs=1.0, max_seq_length=8)
    settings = settings_of(init, "ner", f"{tmp_path}/data", document_context=True)
    bundle = weights.read(teacher)
    tokenizer = bundle.tokenizer()
    data = task_data.load(settings.tasks[0], settings, tokenizer)
    assert data.task.document_context and not bundle.task()["document_context"]
    taught = Teacher(bundle, data, tokenizer, tf.distribute.get_strategy()).teach(data).teacher
    lengths = data.train.features["input_word_ids"].lengths
    alone = dataclasses.replace(settings, document_context=False)
    short = task_data.load(alone.tasks[0], alone, tokenizer).train.features["input_word_ids"]
    assert short.lengths.sum() < lengths.sum()  # neighbouring sentences are read, too
    assert lengths.max() > bundle.task()["max_seq_length"]
    assert [len(row) for row in taught] == lengths.tolist()
    assert np.isfinite(np.concatenate(taught)).all()
