"""A BART from a corpus to a fine-tuned, exported model that writes texts, by the commands."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of the SavedModel)
from rouge_score import rouge_scorer

from bert_tf import tasks, weights
from bert_tf.generation import decoder as decoders
from bert_tf.generation.generator import TextGenerator
from bert_tf.generation.settings import GenerationSettings
from bert_tf.serving import selection
from bert_tf.serving.plan import EngineName
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks.generation import rouge
from bert_tf.weights import own
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.labelled_data import write_init
from tests.bert_tf.pretraining.runs import SHORT, command, write_examples
from tests.bert_tf.pretraining.test_relatives import config_of

pytestmark = pytest.mark.more

WORDS = "the a small large red old new cat dog house tree river".split()


@pytest.fixture(scope="module")
def bart(corpus_path, tmp_path_factory):
    """The command of a run of a BART, and its folder."""
    folder = tmp_path_factory.mktemp("bart")
    commands.done(
        "learn-vocabulary", f"--corpus={corpus_path}", f"--output={folder}/v", "--kind=byte_bpe",
        "--vocab_size=300",
    )  # fmt: skip
    write_examples(corpus_path, f"{folder}/v", f"{folder}/t", "--objective=denoising", *SHORT)
    model = config_of(
        "bart", folder, vocab_size=300, max_position_embeddings=66, num_decoder_layers=1
    )
    run = command(f"{folder}/t", model, folder / "run", "--saved_model")
    commands.done(*run)
    return run, folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Texts whose targets are their first two words."""
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    for name, count in (("train", 40), ("dev", 8), ("test", 4)):
        rows = [rng.choice(WORDS, 6).tolist() for _ in range(count)]
        lines = ({"article": " ".join(row), "summary": " ".join(row[:2])} for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    return folder


@pytest.fixture(scope="module")
def writer(bart, pairs, tmp_path_factory):
    """A BART that was fine-tuned to write texts."""
    folder = tmp_path_factory.mktemp("writer")
    commands.done(
        "finetune", "--task=generation", f"--data={pairs}", f"--init={bart[1]}/run",
        f"--output={folder}/m", f"--cache={folder}/cache", "--epochs=16", "--batch_size=8",
        "--max_seq_length=24", "--max_target_length=10", "--learning_rate=3e-3",
        "--evaluations=0",
    )  # fmt: skip
    return f"{folder}/m"


def test_examples_have_the_noised_and_the_original_text(bart):
    _, folder = bart
    manifest = json.loads((folder / "t/manifest.json").read_text())
    train = manifest["train"]
    assert train["hidden"] / train["noise_candidates"] == pytest.approx(0.3, abs=0.05)
    assert 1.5 < train["hidden"] / train["spans"] < 3  # those of short texts are cut
    (path, *_) = sorted(folder.glob("t/train-*.tfrecord"))
    record = tf.train.Example.FromString(next(iter(tf.data.TFRecordDataset(str(path)))).numpy())
    ids = {name: list(f.int64_list.value) for name, f in record.features.feature.items()}
    assert len(ids["target_ids"]) == len(ids["input_ids"]) == 32
    assert ids["target_ids"][0] == 0 and ids["target_ids"] != ids["input_ids"]


def test_a_bart_restores_texts(bart):
    _, folder = bart
    run = folder / "run"
    report = json.loads((run / "report.json").read_text())
    assert report["objective"] == "denoising" and report["unigram_perplexity"] > 1
    assert report["samples"] and report["denoising_accuracy"] > 0
    bundle = weights.read(str(run))
    assert bundle.generates and not bundle.tasks
    said = ("generate", f"--model={run}", "--prompt=the small", "--max_new_tokens=6")
    first, again = (commands.done(*said, "--temperature=1", "--seed=5").stdout for _ in range(2))
    assert first == again and not first.startswith("the small")
    predictor = Predictor(f"{run}/saved_model")
    texts = ["the", "a small", "", "the " * 60]
    (found,) = predictor("generate", text=texts).values()
    parts = ["".join(predictor.stream("generate", text=[text])) for text in texts]
    assert [text.decode() for text in found] == parts
    assert "fill_mask" not in predictor.signatures
    predictor.close()


def test_what_a_bart_is_not(bart, vocab_path, corpus_path, tmp_path):
    run, folder = bart
    scored = commands.run("perplexity", f"--model={folder}/run", f"--corpus={corpus_path}")
    assert "only left-to-right models (GPT) have a perplexity" in commands.error_of(scored)
    words = [f"--model={config_of('bert', tmp_path, vocab_size=300)}" if "--model" in w else w
             for w in run]  # fmt: skip
    words = [f"--output={tmp_path}/no" if w.startswith("--output") else w for w in words]
    error = commands.error_of(commands.run(*words))
    assert "for which the model needs a decoder; use a BART" in error


def test_a_model_without_a_decoder_writes_no_texts(pairs, tmp_path):
    write_init(str(tmp_path / "init"))
    error = commands.error_of(
        commands.run(
            "finetune", "--task=generation", f"--data={pairs}", f"--init={tmp_path}/init",
            f"--output={tmp_path}/m", f"--cache={tmp_path}/cache", "--max_seq_length=24",
            "--max_target_length=10",
        )
    )  # fmt: skip
    assert "generation: writes texts, for which a model needs a decoder; use a BART" in error


def test_a_task_writes_texts_the_same_everywhere(writer, pairs, tmp_path):
    report = json.loads(open(f"{writer}/report.json").read())
    assert report["metrics"]["median"].keys() >= {"rouge_l", "rouge_1", "rouge_2"}
    lines = [json.loads(x) for x in open(f"{writer}/predictions.dev.jsonl")]
    assert all(line["prediction"] and line["target"] for line in lines)
    sources = [line["source"] for line in lines]
    commands.done("export", f"--tasks=short={writer}", f"--output={tmp_path}/e")
    predictor = Predictor(f"{tmp_path}/e")
    (found,) = predictor("short", text=sources).values()
    assert [text.decode() for text in found] == [line["prediction"] for line in lines]
    predictor.close()
    commands.done("predict", f"--model={writer}", f"--input={pairs}/dev.jsonl",
                  f"--output={tmp_path}/p")  # fmt: skip
    again = [json.loads(x)["prediction"] for x in open(f"{tmp_path}/p/predictions.dev.jsonl")]
    assert again == [line["prediction"] for line in lines]


def test_how_a_task_writes_is_chosen_at_its_export(writer, tmp_path):
    commands.done(
        "export", f"--tasks=short={writer}", f"--output={tmp_path}/e", "--beams=1", "--max_new_tokens=4", "--unique_ngram=0",
    )  # fmt: skip
    predictor = Predictor(f"{tmp_path}/e")
    (found,) = predictor("short", text=["the small cat"]).values()
    assert "".join(predictor.stream("short", text=["the small cat"])) == found[0].decode()
    (ids,) = predictor(
        "short_ids", input_word_ids=[[0, 9, 2]], input_mask=[[1, 1, 1]], input_type_ids=[[0, 0, 0]]
    ).values()
    assert ids.shape == (1, 4)
    predictor.close()


def test_a_writer_goes_to_hugging_face_and_back(writer, tmp_path):
    model = weights.read(writer)
    assert not model.generates and model.tasks[0]["generation"] == {"beams": 4, "unique_ngram": 3}
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["architectures"] == ["BartForConditionalGeneration"]
    assert (config["encoder_layers"], config["decoder_layers"]) == (1, 1)
    again = weights.read(f"{tmp_path}/hf")
    assert again.tasks == model.tasks
    assert tasks.load(again.task()) == tasks.load(model.task())
    for name, value in again.weights.items():
        np.testing.assert_array_equal(value, model.weights[name])


def test_rouge_counts_words_of_any_script():
    found = rouge.scores(["The cat sat.", "今天天气好", "고양이가 앉았다"],
                         ["a cat sat", "今天天气坏", "고양이가 잔다"])  # fmt: skip
    np.testing.assert_allclose(found["rouge_1"], [2 / 3, 4 / 5, 1 / 2])
    np.testing.assert_allclose(found["rouge_l"], [2 / 3, 4 / 5, 1 / 2])
    np.testing.assert_allclose(found["rouge_2"], [1 / 2, 3 / 4, 0])
    # Marks belong to their letters, composed or not.
    found = rouge.scores(["हिन्दी भाषा", "für"], ["हिन्दी", "fu\u0308r"])
    np.testing.assert_allclose(found["rouge_1"], [2 / 3, 1])


def test_texts_of_ascii_are_scored_as_by_rouge_score():
    rng = np.random.default_rng(0)
    letters = [chr(code) for code in range(32, 127)]
    texts = ["".join(rng.choice(letters, 60)) for _ in range(40)]
    truth, guesses = texts[:20], [a[:30] + b[:30] for a, b in zip(texts, texts[20:], strict=False)]
    # Few words, often and in another order.
    truth += [" ".join(rng.choice(list("abcd"), rng.integers(9))) for _ in range(100)]
    guesses += [" ".join(rng.choice(list("abcd"), rng.integers(9))) for _ in range(100)]
    kinds = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
    scorer = rouge_scorer.RougeScorer(list(kinds.values()))
    expected = [scorer.score(*pair) for pair in zip(truth, guesses, strict=True)]
    found = rouge.scores(truth, guesses)
    for name, kind in kinds.items():
        np.testing.assert_allclose(
            found[name], [each[kind].fmeasure for each in expected], rtol=1e-12
        )


def test_labels_are_smoothed():
    task = tasks.make("generation")
    logits = tf.constant(np.random.default_rng(0).normal(size=(1, 2, 5)), tf.float32)
    loss = task.losses(logits, {"labels": tf.constant([[3, -1]])})[0, 0]
    log_probabilities = tf.nn.log_softmax(logits[0, 0]).numpy()
    weights_of = np.full(5, 0.1 / 5)
    weights_of[3] += 0.9
    assert float(loss) == pytest.approx(-(weights_of * log_probabilities).sum(), rel=1e-5)


def test_results_longer_than_the_positions_are_an_error(bart):
    bundle = weights.read(f"{bart[1]}/run")
    model, tokenizer = bundle.language_model(), bundle.tokenizer()
    decoder = decoders.make(model.encoder, model.token_logits, tokenizer)
    with pytest.raises(InputError, match="=64 is too large: a result has 64 tokens"):
        TextGenerator(decoder, tokenizer, 64, GenerationSettings(max_new_tokens=64))
    TextGenerator(decoder, tokenizer, 64, GenerationSettings(max_new_tokens=63)).generate(["a"])


def test_an_export_of_texts_alone_is_served_by_tensorflow(writer, tmp_path):
    commands.done("export", f"--tasks=short={writer}", f"--output={tmp_path}/e")
    assert selection.choose(f"{tmp_path}/e/1").engine is EngineName.TENSORFLOW


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("finetune", "--freeze=all"), "leaves nothing to train for a head without weights"),
        (("finetune", "--bilstm_layers=1"), "its head has no weights, and no layers"),
        (("finetune", "--max_target_length=65"), "targets of 65 tokens exceed the model's 64"),
        (("export-portable",), "writes texts in a loop, which is not written for LiteRT or ONNX"),
        (("export", "--precision=int8"), "is computed in TensorFlow, which has no int8"),
        (("generate", "--prompt=a"), "was fine-tuned to write texts; predict with it, or export"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_what_tasks_that_write_texts_cannot(words, message, bart, pairs, writer, tmp_path):
    command_, *flags = words
    given = {
        "finetune": [
            "--task=generation", f"--data={pairs}", f"--init={bart[1]}/run", "--max_seq_length=24",
            f"--cache={tmp_path}/cache", f"--output={tmp_path}/m",
            *([] if "--max_target_length=65" in flags else ["--max_target_length=10"]),
        ],
        "export-portable": [f"--tasks=short={writer}", f"--output={tmp_path}/p"],
        "export": [f"--tasks=short={writer}", f"--output={tmp_path}/e"],
        "generate": [f"--model={writer}"],
    }[command_]  # fmt: skip
    assert message in commands.error_of(commands.run(command_, *given, *flags))


def test_a_damaged_search_is_told(writer, tmp_path):
    shutil.copytree(writer, tmp_path / "m")
    path = tmp_path / "m/tasks.json"
    path.write_text(path.read_text().replace('"beams"', '"beems"'))
    with pytest.raises(InputError, match="beems"):
        own.read_tasks(str(tmp_path / "m"))
