"""Fine-tuning with input that is bad: what is said, counted or mended."""

import dataclasses
import json
import os

import pytest

from bert_tf import weights
from bert_tf.finetuning import sweep, task_data
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests import commands
from tests.bert_tf.helpers import with_one_segment
from tests.bert_tf.labelled_data import TOKENS, command, make_spans, make_texts, settings_of


def broken(path, old, new):
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "dev.tsv").write_text("text\tlabel\na\tmixed\n"), r"dev\.tsv: line 2: the label 'mixed' does not occur"),
        (lambda d: broken(d / "train.tsv", "train5\t", "train5"), r"train\.tsv: line 7: has too few columns"),
        (lambda d: (d / "train.tsv").write_text("text\tlabel\na\tpos\nb\tpos\n"), "nothing to learn from one class"),
        (lambda d: (d / "train.tsv").unlink(), "no training data for classification"),
    ],
)  # fmt: skip
def test_bad_data_is_named(tmp_path, init, spoil, message):
    make_texts(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        settings = settings_of(init, "classification", str(tmp_path))
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert not os.path.exists(f"{tmp_path}/out")


def _loaded(settings, init):
    """The data of the task, without a run."""
    return task_data.load(settings.tasks[0], settings, registry.load_tokenizer(init))


def test_what_cannot_be_learned_from_is_counted(tmp_path, init):
    make_spans(tmp_path)
    content = json.loads((tmp_path / "train.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    paragraphs[0]["qas"][0]["answers"][0]["answer_start"] += 1
    paragraphs[1]["qas"][0]["question"] = " "
    (tmp_path / "train.json").write_text(json.dumps(content))
    found = _loaded(settings_of(init, "squad1", str(tmp_path)), init)
    assert found.notes["training examples skipped"] == 2
    assert found.sizes["train"] == 254


def test_bad_requests_are_named(tmp_path, init):
    data = make_texts(tmp_path)
    for arguments, message in (
        (["--task=clasification"], "; did you mean classification?"),
        (["--task=my task=classification"], "'my task' is not a task name; use letters"),
        (
            ["--task=checkpoint=classification,a=classification", f"--data={data},{data}"],
            "--task: results of 'checkpoint' would be in a folder of this name",
        ),
        (
            ["--learning_rate=fast"],
            "--learning_rate=fast: it must be numbers separated by commas, each above 0",
        ),
        (["--max_seq_length=100"], "exceed the model's 64 positions"),
        ([f"--init={tmp_path}"], "has no model of a known format"),
        (["--bilstm_width=32"], "--bilstm_width: there is no BiLSTM; give --bilstm_layers, too"),
        (["--document_context"], "--document_context does not apply to the task classification"),
    ):
        assert message in commands.error(*command(init, data, tmp_path / "out", *arguments))


def test_weights_of_another_vocabulary_are_refused(tmp_path, init):
    other = tmp_path / "model"
    weights.write(weights.read(init), str(other), Format.BERT_TF)
    with open(other / "vocab.txt", "a") as file:
        file.write("more\n")
    (other / "checksums.json").unlink()
    with pytest.raises(
        InputError, match="the vocabulary has 27 tokens, but the model's vocab_size is 26"
    ):
        sweep.finetune(
            settings_of(str(other), "classification", make_texts(tmp_path)),
            f"{tmp_path}/out",
            f"{tmp_path}/c",
        )


@pytest.mark.more
def test_another_vocabulary_is_another_run(tmp_path, init):
    data = make_texts(tmp_path, train=32, dev=16)
    settings = settings_of(init, "classification", data, epochs=1.0)
    sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    model = weights.read(init)
    for changes in (
        {"vocabulary": WordPieceVocabulary((*TOKENS[:-2], TOKENS[-1], TOKENS[-2]))},
        {"tokenizer_settings": {"lower_case": False, "strip_accents": False}},
    ):
        other = f"{tmp_path}/{next(iter(changes))}"
        weights.write(dataclasses.replace(model, **changes), other, Format.BERT_TF)
        with pytest.raises(InputError, match="is of a run with other"):
            sweep.finetune(
                dataclasses.replace(settings, init=other), f"{tmp_path}/out", f"{tmp_path}/cache"
            )


def test_choices_need_dev_data(tmp_path, init):
    make_texts(tmp_path, train=32)
    for changes in ({"learning_rates": (1e-3, 2e-3)}, {"patience": 1}):
        settings = settings_of(
            init, "classification", f"{tmp_path}/train.tsv", dev_fraction=0.0, **changes
        )
        with pytest.raises(InputError, match="is chosen on dev data, and there is none"):
            sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")


def test_a_folder_of_others_is_left_as_it_is(tmp_path, init):
    data = make_texts(tmp_path, train=32, dev=16)
    settings = settings_of(init, "classification", data, epochs=1.0)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "picture.png").write_text("mine")
    with pytest.raises(InputError, match="is not of a training run: it has picture.png"):
        sweep.finetune(settings, str(mine), f"{tmp_path}/cache")
    assert os.listdir(mine) == ["picture.png"]


def test_pairs_for_a_model_of_one_segment_are_refused(tmp_path, init):
    narrow = with_one_segment(weights.read(init))
    weights.write(narrow, f"{tmp_path}/narrow", Format.BERT_TF)
    (tmp_path / "data").mkdir()
    for split in ("train", "dev"):
        rows = "".join(f"a{i % 3}\tb\t{i % 2}\n" for i in range(24))
        (tmp_path / f"data/{split}.tsv").write_text(f"text_a\ttext_b\tlabel\n{rows}")
    settings = settings_of(f"{tmp_path}/narrow", "pair", f"{tmp_path}/data", epochs=1.0)
    with pytest.raises(InputError, match="pair: has sequences of 2 segments"):
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert not os.path.exists(f"{tmp_path}/out")


def test_half_of_a_surrogate_pair_in_a_text_is_replaced_when_it_is_read(tmp_path, init):
    rows = [
        json.dumps({"text": f"a\ud800 b{i % 2} \udfff", "label": f"l{i % 2}"}) for i in range(24)
    ]
    assert "ud800" in rows[0]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows))
    found = _loaded(settings_of(init, "classification", str(tmp_path)), init)
    assert found.sizes["train"] == 24
    texts = {example.text_a for example in found.train.examples}
    assert texts == {f"a\ufffd b{i} \ufffd" for i in range(2)}


@pytest.mark.parametrize("changes", [{"seeds": (1, 2, 1)}, {"learning_rates": (2e-5, 2e-5)}])
def test_a_run_is_asked_for_once(init, changes):
    with pytest.raises(InputError, match="has a value twice, which would be one run"):
        settings_of(init, "classification", "data", **changes).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rates": (float("inf"),)}, {"learning_rates": (float("nan"),)},
        {"weight_decay": float("inf")}, {"epochs": float("nan")}, {"clip_norm": float("nan")},
        {"dropout": float("nan")}, {"warmup_fraction": float("nan")}, {"layer_decay": float("nan")},
        {"dev_fraction": float("nan")}, {"epochs": float("inf")},
    ],
)  # fmt: skip
def test_settings_that_are_no_numbers_are_refused(init, changes):
    settings = settings_of(init, "classification", "data", **changes)
    flag = next(iter(changes)).replace("learning_rates", "learning_rate")
    with pytest.raises(InputError, match=f"--{flag}=.*(nan|inf).*: it must be a finite number"):
        settings.check()


def test_texts_alone_need_dropout(tmp_path, init):
    (tmp_path / "x.txt").write_text("the model\nthe kernel\na shard\n" * 8)
    settings = settings_of(init, "embedding", f"{tmp_path}/x.txt")
    with pytest.raises(InputError, match=r"under two dropouts, and the model has none; set --drop"):
        sweep.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache", tensorboard=False)
