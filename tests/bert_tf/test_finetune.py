"""Fine-tuning for every shape of task, on small data that has something to learn."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bert_tf import finetuning, predicting, weights
from bert_tf.config import BertConfig
from bert_tf.finetuning_settings import FineTuningSettings, Selection, TaskRequest
from bert_tf.weights import Bundle, bundle
from bert_tf.weights.formats import Format
from pipelines.errors import InputError

GOOD = ["good", "fine", "great", "nice"]
BAD = ["bad", "poor", "awful", "sad"]
OTHER = [
    "the",
    "film",
    "is",
    "a",
    "very",
    "story",
    "with",
    "music",
    "and",
    "light",
    "##s",
    "who",
    "?",
]
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER)
CONFIG = BertConfig(
    vocab_size=len(TOKENS),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    initializer_range=0.1,
)


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    """A folder of a small model of random weights."""
    rng = np.random.default_rng(0)
    values = {
        name: np.ones(shape, "f4")
        if name.endswith("gamma")
        else (0.1 * rng.standard_normal(shape)).astype("f4")
        for name, shape in bundle.parameter_shapes(CONFIG).items()
    }
    folder = str(tmp_path_factory.mktemp("init") / "model")
    weights.write(Bundle(CONFIG, values, TOKENS), folder, Format.BERT_TF)
    return folder


def sentence(rng, word, most=12):
    words = rng.choices(OTHER[:10], k=rng.randint(2, most))
    words.insert(rng.randint(0, len(words)), word)
    return " ".join(words)


def write_rows(path, rows, header):
    path.write_text("\n".join("\t".join(row) for row in [header, *rows]) + "\n")


def make_texts(folder, train=192, dev=64):
    """Sentences with a good or a bad word, some with a test file."""
    rng = random.Random(0)
    for split, count in (("train", train), ("dev", dev), ("test", 10)):
        rows = []
        for index in range(count):
            label = rng.choice(["pos", "neg"])
            rows.append(
                [
                    f"{split}{index}",
                    sentence(rng, rng.choice(GOOD if label == "pos" else BAD)),
                    label,
                ]
            )
        write_rows(folder / f"{split}.tsv", rows, ["id", "text", "label"])
    return str(folder)


def make_pairs(folder, regression=False):
    """Whether the second text is good or bad, whatever the first is."""
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 64)):
        rows = []
        for _ in range(count):
            first, second = rng.choice([GOOD, BAD]), rng.choice([GOOD, BAD])
            label = ("4.5" if second is GOOD else "0.5") if regression else str(int(second is GOOD))
            rows.append([*(sentence(rng, rng.choice(w), 5) for w in (first, second)), label])
        write_rows(folder / f"{split}.tsv", rows, ["sentence1", "sentence2", "label"])
    return str(folder)


def make_tags(folder):
    rng = random.Random(0)
    for split, count in (("train", 192), ("dev", 48), ("test", 20)):
        lines = []
        for _ in range(count):
            words = rng.choices([*GOOD, *BAD, *OTHER[:8], "lights"], k=rng.randint(2, 12))
            tags = ["B-POS" if w in GOOD else "B-NEG" if w in BAD else "O" for w in words]
            lines += [f"{word} {tag}" for word, tag in zip(words, tags, strict=True)] + [""]
        (folder / f"{split}.txt").write_text("\n".join(lines))
    return str(folder)


def make_spans(folder, null=False):
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 48)):
        rows = []
        for index in range(count):
            has = not null or rng.random() < 0.5
            context = sentence(rng, "great" if has else "story", 30)
            answers = [{"text": "great", "answer_start": context.index("great")}] if has else []
            entry = {"id": f"{split}{index}", "question": "who is great?", "answers": answers}
            rows.append({"context": context, "qas": [entry | {"is_impossible": not has}]})
        content = {"version": "1", "data": [{"title": "t", "paragraphs": rows}]}
        (folder / f"{split}.json").write_text(json.dumps(content))
    return str(folder)


def make_choices(folder):
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 48)):
        lines = []
        for _ in range(count):
            number = rng.choice([2, 3, 4])
            label = rng.randrange(number)
            texts = [
                sentence(rng, rng.choice(GOOD if i == label else BAD), 4) for i in range(number)
            ]
            lines.append(json.dumps({"context": "who is good ?", "choices": texts, "label": label}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def settings_of(init, kind, data, **changes):
    values = {
        "epochs": 6.0, "batch_size": 16, "learning_rates": (2e-3,), "max_length": 40,
        "precision": "float32", "dropout": 0.0,
    }  # fmt: skip
    request = TaskRequest(kind, kind, data)
    return FineTuningSettings((request,), init, **(values | changes))


def tune(tmp_path, init, kind, make, **changes):
    data = tmp_path / "data"
    data.mkdir()
    settings = settings_of(init, kind, make(data), **changes)
    output = f"{tmp_path}/out"
    return finetuning.finetune(settings, output, f"{tmp_path}/cache", tensorboard=False), output


def files_of(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith(("predictions", "n")))


def test_classification(tmp_path, init):
    report, output = tune(tmp_path, init, "classification", make_texts)
    assert report["metrics"]["median"]["accuracy"] > 0.9
    assert report["seconds"] > 0 and report["settings"]["epochs"] == 6
    assert files_of(output) == ["predictions.dev.tsv", "predictions.test.tsv"]
    lines = open(f"{output}/predictions.test.tsv").read().splitlines()
    assert lines[0].split("\t") == ["id", "label", "p(neg)", "p(pos)"]
    assert [line.split("\t")[0] for line in lines[1:]] == [f"test{i}" for i in range(10)]
    for name in ("bert_config.json", "vocab.txt", "tokenizer_config.json", "run.json"):
        assert os.path.exists(f"{output}/{name}")
    assert open(f"{output}/picture.png", "rb").read(4) == b"\x89PNG"
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["labels"] == ["neg", "pos"] and task["shape"] == "classification"
    # The weights that were kept give the predictions that were written, to another reader too.
    before = open(f"{output}/predictions.test.tsv").read()
    request = predicting.Request(f"{tmp_path}/data/test.tsv")
    (path,), _ = predicting.predict_file(output, request, f"{tmp_path}/again")
    assert open(path).read() == before
    # A second call finds the first one's report; other settings are refused.
    again = finetuning.finetune(
        settings_of(init, "classification", f"{tmp_path}/data"), output, f"{tmp_path}/cache"
    )
    assert again["metrics"] == report["metrics"]
    with pytest.raises(InputError, match=r"is of a run with other settings: epochs"):
        settings = settings_of(init, "classification", f"{tmp_path}/data", epochs=2.0)
        finetuning.finetune(settings, output, f"{tmp_path}/cache")


def test_pairs(tmp_path, init):
    report, _ = tune(tmp_path, init, "pair", make_pairs, epochs=12.0)
    assert report["metrics"]["median"]["accuracy"] > 0.9


def test_regression(tmp_path, init):
    report, output = tune(
        tmp_path,
        init,
        "regression",
        lambda folder: make_pairs(folder, regression=True),
        epochs=10.0,
    )
    assert report["metrics"]["median"]["pearson"] > 0.9
    assert open(f"{output}/predictions.dev.tsv").readline() == "id\tscore\n"


def test_tagging(tmp_path, init):
    report, output = tune(tmp_path, init, "ner", make_tags)
    assert report["metrics"]["median"]["f1"] > 0.95
    assert report["test_metrics"]["ner"]["test/f1"] > 0.9
    words = [line.split() for line in open(f"{output}/predictions.dev.txt") if line.strip()]
    accuracy = np.mean([truth == guess for _, truth, guess in words])
    assert accuracy == pytest.approx(report["metrics"]["median"]["accuracy"])


def test_sentences_beyond_the_window_get_all_their_tags(tmp_path, init):
    report, output = tune(tmp_path, init, "tagging", make_tags, max_length=8, epochs=4.0)
    assert report["metrics"]["median"]["f1"] > 0.9
    assert report["notes"]["tagging"]["sentences longer than the window"] > 100
    dev = open(f"{tmp_path}/data/dev.txt").read().split("\n")
    guesses = open(f"{output}/predictions.dev.txt").read().split("\n")
    assert [line.split()[:1] for line in guesses if line] == [
        line.split()[:1] for line in dev if line
    ]


def test_document_context_keeps_words_and_tags_together(tmp_path, init):
    report, _ = tune(tmp_path, init, "ner", make_tags, document_context=True)
    assert report["metrics"]["median"]["f1"] > 0.9


def test_spans_in_sliding_windows(tmp_path, init):
    report, output = tune(tmp_path, init, "squad1", make_spans, max_length=24, epochs=8.0)
    assert report["metrics"]["median"]["exact"] > 0.9
    assert report["notes"]["squad1"]["further windows of long contexts"] > 20
    answers = json.load(open(f"{output}/predictions.json"))
    best = json.load(open(f"{output}/nbest_predictions.json"))
    assert answers.keys() == best.keys() == {f"dev{i}" for i in range(48)}
    for key, rows in best.items():
        assert rows[0]["text"] == answers[key] and len(rows) <= 20
        assert sum(row["probability"] for row in rows) == pytest.approx(1)


def test_spans_that_may_be_missing(tmp_path, init):
    report, output = tune(
        tmp_path, init, "span", lambda folder: make_spans(folder, null=True), epochs=8.0
    )
    assert report["metrics"]["median"]["f1"] > 0.9
    odds = json.load(open(f"{output}/null_odds.json"))
    answers = json.load(open(f"{output}/predictions.json"))
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["allow_null"]
    for key, answer in answers.items():
        assert (answer == "") == (odds[key] > task["null_threshold"])


def test_choices_of_different_numbers(tmp_path, init):
    report, output = tune(tmp_path, init, "choice", make_choices)
    assert report["metrics"]["median"]["accuracy"] > 0.9
    assert files_of(output) == ["predictions.dev.csv"]


def test_seeds_rates_and_joint_tasks(tmp_path, init):
    for name in ("texts", "tags"):
        (tmp_path / name).mkdir()
    requests = (
        TaskRequest("classification", "mood", make_texts(tmp_path / "texts")),
        TaskRequest("ner", "ner", make_tags(tmp_path / "tags")),
    )
    settings = settings_of(init, "ner", "", seeds=(1, 2), learning_rates=(1e-5, 2e-3), epochs=5.0)
    settings = FineTuningSettings(**(vars(settings) | {"tasks": requests}))
    output = f"{tmp_path}/out"
    report = finetuning.finetune(settings, output, f"{tmp_path}/cache", tensorboard=False)
    assert report["learning_rate"] == 2e-3
    assert report["metrics"]["by_seed"].keys() == {"1", "2"}
    assert len(report["grid"]) == 4
    assert report["metrics"]["median"]["mood/accuracy"] > 0.85
    assert report["metrics"]["median"]["ner/f1"] > 0.85
    # One encoder, two heads, each predicting from the same folder.
    model = weights.read(output)
    assert {task["name"] for task in model.tasks} == {"mood", "ner"}
    request = predicting.Request(f"{tmp_path}/texts/test.tsv")
    (path,), _ = predicting.predict_file(output, request, task_name="mood")
    assert path == f"{output}/predictions/mood/predictions.test.tsv"
    with pytest.raises(InputError, match="the tasks mood, ner; choose with --task="):
        predicting.predict_file(output, request, f"{tmp_path}/p")


def test_early_stopping_balance_and_layer_decay(tmp_path, init):
    report, _ = tune(
        tmp_path, init, "classification", make_texts,
        epochs=30.0, patience=2, balanced=True, layer_decay=0.9, evaluations=2,
    )  # fmt: skip
    (run,) = report["grid"]
    scores = [item["score"] for item in run["evaluations"]]
    assert len(scores) < 60 and scores.index(max(scores)) == len(scores) - 3
    assert run["score"] == max(scores)
    data = f"{tmp_path}/data"
    settings = settings_of(init, "classification", data, epochs=2.0, selection=Selection.LAST)
    last = finetuning.finetune(settings, f"{tmp_path}/last", f"{tmp_path}/cache")
    assert last["grid"][0]["score"] == last["grid"][0]["evaluations"][-1]["score"]


def test_one_file_is_split(tmp_path, init):
    make_texts(tmp_path)
    settings = settings_of(init, "classification", f"{tmp_path}/train.tsv", epochs=1.0)
    report = finetuning.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert report["examples"]["classification"] == {"train": 173, "dev": 19}


def command(init, data, output, *extra):
    return [
        sys.executable, "-m", "bert_tf.finetune", "--task=classification", f"--data={data}",
        f"--init={init}", f"--output={output}", f"--cache={data}/cache", "--epochs=8",
        "--batch_size=16", "--learning_rate=1e-3", "--max_length=40", "--precision=float32", *extra,
    ]  # fmt: skip


def kept(output):
    model = weights.read(str(output))
    return model.sha256(), json.load(open(f"{output}/report.json"))["metrics"]


def test_a_killed_run_ends_with_the_same_bits(tmp_path, init):
    data = make_texts(tmp_path)
    whole = subprocess.run(command(init, data, tmp_path / "whole"), capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr[-3000:]
    process = subprocess.Popen(command(init, data, tmp_path / "killed"), stderr=subprocess.DEVNULL)
    place = tmp_path / "killed/runs/lr-0.001-seed-1/checkpoints"
    deadline = time.time() + 120
    while process.poll() is None and not list(place.glob("checkpoint-*[0-9]")):
        assert time.time() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed/report.json").exists()
    done = subprocess.run(command(init, data, tmp_path / "killed"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert kept(tmp_path / "killed") == kept(tmp_path / "whole")


def broken(path, old, new):
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: broken(d / "dev.tsv", "\tpos\n", "\tmixed\n"), r"dev\.tsv: line \d+: the label 'mixed' does not occur"),
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
        finetuning.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert not os.path.exists(f"{tmp_path}/out")


def test_what_cannot_be_learned_from_is_counted(tmp_path, init):
    make_spans(tmp_path)
    content = json.loads((tmp_path / "train.json").read_text())
    paragraphs = content["data"][0]["paragraphs"]
    paragraphs[0]["qas"][0]["answers"][0]["answer_start"] += 1
    paragraphs[1]["qas"][0]["question"] = " "
    (tmp_path / "train.json").write_text(json.dumps(content))
    settings = settings_of(init, "squad1", str(tmp_path), epochs=0.1)
    report = finetuning.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert report["notes"]["squad1"]["training examples skipped"] == 2
    assert report["examples"]["squad1"]["train"] == 254
    assert report["metrics"]["median"].keys() == {"f1", "exact"}  # scored though no epoch ended


def test_bad_requests_are_named(tmp_path, init):
    data = make_texts(tmp_path)
    for arguments, message in (
        (["--task=clasification"], "the task 'clasification' is unknown; there are cola,"),
        (["--task=my task=classification"], "'my task' is no name of a task; use letters"),
        (["--learning_rate=fast"], "--learning_rate=fast: not a list of numbers"),
        (["--max_length=100"], "exceed the model's max_position_embeddings of 64"),
        ([f"--init={tmp_path}"], "no model of a known format"),
        (["--document_context"], "--document_context does not apply to the task classification"),
    ):
        done = subprocess.run(
            command(init, data, tmp_path / "out", *arguments), capture_output=True, text=True
        )
        assert done.returncode == 2
        assert message in done.stderr.splitlines()[-1]


def test_weights_of_another_vocabulary_are_refused(tmp_path, init):
    other = tmp_path / "model"
    weights.write(weights.read(init), str(other), Format.BERT_TF)
    with open(other / "vocab.txt", "a") as file:
        file.write("more\n")
    with pytest.raises(
        InputError, match="the vocabulary has 27 tokens, but the model's vocab_size is 26"
    ):
        finetuning.finetune(
            settings_of(str(other), "classification", make_texts(tmp_path)),
            f"{tmp_path}/out",
            f"{tmp_path}/c",
        )


def test_a_batch_is_shared_by_devices(tmp_path, init):
    """Two mirrored devices learn what one does."""
    make_texts(tmp_path)
    code = (
        "import tensorflow as tf, sys\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
        "from bert_tf import finetune\nfrom pipelines import commands\n"
        "commands.run(finetune.main)\n"
    )
    scores = []
    for name, extra in (("one", []), ("two", ["--strategy=mirrored"])):
        arguments = command(init, tmp_path, tmp_path / name, "--dropout=0", "--epochs=2", *extra)[
            3:
        ]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        folder = tmp_path / name / "runs/lr-0.001-seed-1/history.jsonl"
        scores.append([json.loads(line)["loss"] for line in folder.read_text().splitlines()])
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4)
