"""ELMo from a corpus to answers, by the commands: what BERT's way has, resumption, mistakes."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of the SavedModel)

from bert_tf import weights
from bert_tf.finetuning import sweep
from bert_tf.inspection import run_page
from bert_tf.models.elmo import ElmoEncoder
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.serving.engines import SavedModelSession
from bert_tf.serving.predictor import Predictor
from bert_tf.weights import formats
from bert_tf.weights.bundle import BIDIRECTIONAL_LM
from pipelines.tokenizers.whole_words import SPECIAL_TOKENS, WordVocabulary
from tests import commands
from tests.bert_tf.labelled_data import BAD, GOOD, OTHER, make_tags, make_texts, settings_of
from tests.bert_tf.pretraining.runs import command, write_examples

pytestmark = pytest.mark.more

_error = commands.error_of


@pytest.fixture(scope="module")
def words(corpus_path, tmp_path_factory):
    """A vocabulary of the words of the corpus."""
    path = str(tmp_path_factory.mktemp("words") / "v")
    commands.done("learn-vocabulary", f"--corpus={corpus_path}", f"--output={path}", "--kind=word")
    return path


@pytest.fixture(scope="module")
def examples(corpus_path, words, tmp_path_factory):
    """Sequences of words, some held out."""
    path = str(tmp_path_factory.mktemp("examples") / "t")
    write_examples(
        corpus_path, words, path, "--objective=bidirectional_lm", "--max_seq_length=24",
        "--max_predictions_per_seq=5", "--held_out_fraction=0.1",
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def finished(examples, tmp_path_factory):
    """The folder of a whole run."""
    output = tmp_path_factory.mktemp("out") / "elmo"
    commands.done(*command(examples, "elmo-debug", output, "--saved_model"))
    return output


@pytest.fixture(scope="module")
def init(finished, tmp_path_factory):
    """The same with the words of the labelled data, which it knows by their characters."""
    path = tmp_path_factory.mktemp("init")
    words = [*SPECIAL_TOKENS, *GOOD, *BAD, *(word for word in OTHER if "#" not in word)]
    WordVocabulary(tuple(words)).write(str(path / "words"))
    commands.done(
        "convert", f"--input={finished}", f"--output={path}/elmo", f"--vocab={path}/words"
    )
    return f"{path}/elmo"


def test_a_run_leaves_what_those_of_bert_leave(finished):
    report = json.loads((finished / "report.json").read_text())
    points = [json.loads(line) for line in (finished / "history.jsonl").read_text().splitlines()]
    assert points[-1]["loss"] < points[0]["loss"] - 0.5
    assert report["perplexity"] < 0.6 * np.exp(points[0]["loss"])
    assert report["forward_lm_accuracy"] > 0.1 and report["backward_lm_accuracy"] > 0.1
    assert report["objective"] == "bidirectional_lm"
    model = weights.read(str(finished))
    assert isinstance(model.config, ElmoConfig) and model.vocabulary.kind == "word"
    assert model.has(BIDIRECTIONAL_LM)
    assert (finished / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_the_saved_model_takes_raw_text(finished):
    loaded = tf.saved_model.load(str(finished / "saved_model"))
    texts = ["The small model reads every token of the layer.", ""]
    found = loaded.signatures["embed"](tf.constant(texts))["mean_output"]
    model = weights.read(str(finished))
    encoder, tokenizer = model.encoder(), model.tokenizer()
    inputs = tokenizer(texts[:1])
    expected = tf.reduce_mean(encoder(inputs)["sequence_output"], 1)
    np.testing.assert_allclose(found[:1], expected, atol=1e-5)
    assert "fill_mask" not in loaded.signatures


def test_the_run_is_shown_without_neighbours_of_words(finished):
    found = run_page.inspect(str(finished)).values
    assert found["words"] is None and found["history"]["steps"]


@pytest.mark.slow
def test_drawn_words_and_a_program_of_xla(examples, tmp_path):
    config = ElmoConfig.named("elmo-debug", vocab_size=60, softmax_size=40, sampled_softmax=10)
    config.save(str(tmp_path / "bert_config.json"))
    commands.done(
        *command(
            examples, tmp_path / "bert_config.json", tmp_path / "o", "--xla=step",
            "--precision=mixed_bfloat16", "--accumulation=2", "--steps=40",
        )
    )  # fmt: skip
    lines = (tmp_path / "o" / "history.jsonl").read_text().splitlines()
    points = [json.loads(line) for line in lines]
    assert points[-1]["loss"] < points[0]["loss"] - 0.2
    found = weights.read(str(tmp_path / "o"))
    assert found.weights["bidirectional_lm/kernel"].shape == (40, 32)


@pytest.mark.slow
def test_pretrained_is_fine_tuned(init, tmp_path):
    (tmp_path / "data").mkdir()
    make_tags(tmp_path / "data")
    settings = settings_of(init, "ner", f"{tmp_path}/data", learning_rates=(6e-3,))
    report = sweep.finetune(settings, f"{tmp_path}/ner", f"{tmp_path}/cache")
    assert report["metrics"]["median"]["f1"] > 0.9
    commands.done(
        "predict", f"--model={tmp_path}/ner", f"--input={tmp_path}/data/dev.txt",
        f"--output={tmp_path}/predictions",
    )  # fmt: skip
    commands.done("export", f"--tasks=ner={tmp_path}/ner", f"--output={tmp_path}/export")
    predictor = Predictor(f"{tmp_path}/export")
    session = SavedModelSession(f"{tmp_path}/export/1")
    given = np.array([[word.encode() for word in (GOOD[0], "U.K.", OTHER[0])]], object)
    found = predictor("ner_words", words=given)
    assert found["tags"].all()
    np.testing.assert_allclose(
        found["probabilities"],
        session.run("ner_words", {"words": given})["probabilities"],
        atol=1e-5,
    )


def test_texts_are_classified_and_embedded(init, tmp_path):
    (tmp_path / "data").mkdir()
    make_texts(tmp_path / "data")
    settings = settings_of(
        init,
        "classification",
        f"{tmp_path}/data",
        epochs=12.0,
        layer_decay=0.95,
        learning_rates=(6e-3,),
    )
    report = sweep.finetune(settings, f"{tmp_path}/texts", f"{tmp_path}/cache")
    assert report["metrics"]["median"]["accuracy"] > 0.8
    (tmp_path / "texts.txt").write_text("The model.\nThe token reads.\n")
    commands.done(
        "embed", f"--model={init}", f"--input={tmp_path}/texts.txt",
        f"--output={tmp_path}/vectors.npy", "--layers=0,1,2",
    )  # fmt: skip
    assert np.load(tmp_path / "vectors.npy").shape == (2, 3 * 64)


def test_another_vocabulary_is_known_by_its_characters(finished, tmp_path):
    model = weights.read(str(finished))
    (tmp_path / "v").mkdir()
    words = [*model.vocabulary.tokens[:5], "unheard", *model.vocabulary.tokens[5:]]
    (tmp_path / "v" / "words.txt").write_text("".join(f"{word}\n" for word in words))
    commands.done(
        "convert", f"--input={finished}", f"--output={tmp_path}/o", f"--vocab={tmp_path}/v"
    )
    found = weights.read(f"{tmp_path}/o")
    assert found.config.vocab_size == len(words) and not found.has(BIDIRECTIONAL_LM)
    text = ["The model reads."]
    vectors = [each.encoder()(each.tokenizer()(text))["sequence_output"] for each in (model, found)]
    np.testing.assert_array_equal(*vectors)
    heard = found.tokenizer()(["unheard"])["input_word_ids"].numpy()
    assert heard.tolist() == [[2, 5, 3]]


@pytest.mark.slow
def test_goes_on_from_another_run(finished, examples, tmp_path):
    process = commands.done(
        *command(examples, "elmo-debug", tmp_path / "o", "--steps=5"), f"--init={finished}"
    )
    assert "lacks" not in process.stderr
    first = json.loads((tmp_path / "o" / "history.jsonl").read_text().splitlines()[0])
    fresh = json.loads((finished / "history.jsonl").read_text().splitlines()[0])
    assert first["loss"] < fresh["loss"] - 0.5


def test_what_does_not_go_together_is_told(
    finished, examples, words, tfrecords, corpus_path, vocab_path, model_path, tmp_path
):
    """A BERT and examples of words, an ELMo and pieces, other formats."""
    output = tmp_path / "o"
    message = _error(commands.run(*command(examples, model_path, output)))
    assert "use an ELMo (--model=elmo-tiny" in message
    message = _error(commands.run(*command(tfrecords, "elmo-debug", output)))
    assert "write them with --objective=bidirectional_lm for an ELMo" in message
    write_examples(
        corpus_path, vocab_path, tmp_path / "pieces", "--objective=bidirectional_lm",
        "--max_seq_length=24", "--max_predictions_per_seq=5",
    )  # fmt: skip
    message = _error(commands.run(*command(tmp_path / "pieces", "elmo-debug", output)))
    assert "its vocabulary is of kind wordpiece" in message
    assert "learn-vocabulary with --kind=word" in message
    message = commands.error(
        "convert", f"--input={finished}", f"--output={output}", f"--vocab={vocab_path}"
    )
    assert "its vocabulary is of kind wordpiece" in message
    for name in ("tf1", "huggingface"):
        message = commands.error(
            "convert", f"--input={finished}", f"--output={output}", f"--format={name}"
        )
        assert "elmo" in message
    message = commands.error(
        "export-portable", f"--tasks=pretrained={finished}", f"--output={output}", "--format=onnx"
    )
    assert "ELMo cannot be written for LiteRT or ONNX" in message
    assert set(formats.WRITABLE) == {"bert_tf", "tf1", "huggingface"}
    assert not output.exists()
    assert isinstance(weights.read(str(finished)).encoder(), ElmoEncoder)
