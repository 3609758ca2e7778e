"""ELECTRA, ALBERT and students from a corpus to a fine-tuned model, by the commands."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the ops of the SavedModel)

from bert_tf import tasks, weights
from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.objectives.masked_lm import LeftToRight
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks.model import TaskModel, TaskObjective
from bert_tf.training import checkpoints
from bert_tf.weights.bundle import GENERATOR, MASKED_LM, REPLACED_TOKEN, SENTENCE_ORDER
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.labelled_data import make_texts, tune
from tests.bert_tf.pretraining.runs import MODEL, SHORT, command, write_examples

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[3]
SIZES = {
    name: getattr(MODEL, name)
    for name in (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        "max_position_embeddings",
    )
}


def config_of(family, folder, **changes):
    """The path of a bert_config.json of a very small model of a family."""
    values = {**FAMILIES[family].values, "vocab_size": 200, **SIZES, **changes}
    path = str(folder / f"{family}.json")
    BertConfig(**values).save(path)
    return path


@pytest.fixture(scope="module")
def electra(corpus_path, vocab_path, tmp_path_factory):
    """The command of a run of an ELECTRA, and its folder."""
    folder = tmp_path_factory.mktemp("electra")
    write_examples(corpus_path, vocab_path, f"{folder}/t", "--objective=replaced_token", *SHORT)
    model = config_of("electra", folder, generator_size=0.5, embedding_size=16)
    run = command(f"{folder}/t", model, folder / "run", "--saved_model")
    commands.done(*run)
    return run, folder / "run"


def test_an_electra_and_its_generator(electra):
    _, folder = electra
    report = json.loads((folder / "report.json").read_text())
    assert report["objective"] == "replaced_token"
    assert 0 < report["replaced_token_found"] <= 1 and report["masked_lm_accuracy"] > 0
    assert report["masked_sentences"]
    model = weights.read(str(folder))
    assert model.has(REPLACED_TOKEN) and model.has(GENERATOR[0]) and not model.has(MASKED_LM)
    generator = weights.read(f"{folder}/generator")
    assert generator.config == model.config.generator
    assert generator.has(MASKED_LM) and not generator.has(REPLACED_TOKEN)
    words = "encoder/embeddings/word_embeddings"
    assert (generator.weights[words] == model.weights[words]).all()
    found = tf.saved_model.load(f"{folder}/saved_model").signatures
    assert "fill_mask" not in "".join(found) and "embed" in found


def test_the_discriminator_is_fine_tuned(electra, tmp_path):
    _, folder = electra
    _, output = tune(tmp_path, str(folder), "classification", make_texts)
    assert not weights.read(output).has(GENERATOR[0])


@pytest.mark.slow
def test_the_recipe_of_a_modernbert(corpus_path, vocab_path, tmp_path):
    """Masked LM of 30 % of the tokens, in packed sequences; a few steps."""
    words = ("--objective=mlm", "--sequences=packed", "--masked_lm_prob=0.3", "--max_seq_length=128",
             "--max_predictions_per_seq=40", "--held_out_fraction=0.1")  # fmt: skip
    write_examples(corpus_path, vocab_path, f"{tmp_path}/t", *words)
    commands.done(
        "pretrain", f"--flagfile={ROOT}/recipes/modernbert.flags", f"--tfrecords={tmp_path}/t",
        f"--output={tmp_path}/run", "--steps=6", "--warmup_steps=2", "--batch_size=4",
        "--log_every=1", "--precision=float32", "--nosaved_model",
    )  # fmt: skip
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run/history.jsonl").open()]
    assert losses[-1] < losses[0]
    model = weights.read(f"{tmp_path}/run")
    size = BertConfig.named("modernbert-tiny").num_hidden_layers, 64
    assert (model.config.num_hidden_layers, model.config.local_attention // 2) == size
    assert json.loads((tmp_path / "run/report.json").read_text())["objective"] == "mlm"


def test_a_model_without_a_generator_is_refused(electra, tmp_path):
    run, _ = electra
    model = config_of("bert", tmp_path)
    words = [f"--model={model}" if word.startswith("--model") else word for word in run]
    words = [f"--output={tmp_path}/no" if word.startswith("--output") else word for word in words]
    error = commands.error_of(commands.run(*words))
    assert "the model needs a generator; use an ELECTRA" in error


def test_an_albert_with_sentencepiece_and_sentence_order(corpus_path, tmp_path):
    commands.done(
        "learn-vocabulary", f"--corpus={corpus_path}", f"--output={tmp_path}/v",
        "--kind=sentencepiece", "--vocab_size=200",
    )  # fmt: skip
    words = ("--objective=mlm_sop", "--whole_word_mask", "--max_ngram=3")
    write_examples(corpus_path, f"{tmp_path}/v", f"{tmp_path}/t", *words, *SHORT)
    model = config_of("albert", tmp_path, embedding_size=16)
    commands.done(*command(f"{tmp_path}/t", model, tmp_path / "run", "--saved_model"))
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report["sentence_order_accuracy"] > 0.4 and report["sentence_order_majority"] >= 0.5
    found = weights.read(f"{tmp_path}/run")
    assert found.has(SENTENCE_ORDER) and found.vocabulary.kind == "sentencepiece"
    loaded = tf.saved_model.load(f"{tmp_path}/run/saved_model")
    assert loaded.signatures["embed"](tf.constant(["A small text."]))["mean_output"].shape == (
        1,
        32,
    )


@pytest.fixture(scope="module")
def gpt(corpus_path, tmp_path_factory):
    """The command of a run of a GPT, and its folder."""
    folder = tmp_path_factory.mktemp("gpt")
    commands.done(
        "learn-vocabulary", f"--corpus={corpus_path}", f"--output={folder}/v", "--kind=bpe",
        "--vocab_size=200",
    )  # fmt: skip
    streamed = ("--objective=left_to_right", "--sequences=stream")
    write_examples(corpus_path, f"{folder}/v", f"{folder}/t", *streamed, *SHORT)
    model = config_of("openai-gpt", folder)
    run = command(f"{folder}/t", model, folder / "run", "--saved_model")
    commands.done(*run)
    return run, folder / "run"


def test_a_gpt_writes_texts(gpt, corpus_path):
    _, folder = gpt
    report = json.loads((folder / "report.json").read_text())
    assert report["next_token_accuracy"] > 0.1
    said = ("generate", f"--model={folder}", "--prompt=the")  # its sequences have 32 tokens
    first, again = (commands.done(*said, "--temperature=1", "--seed=5").stdout for _ in range(2))
    assert first == again and first.startswith("the ")
    assert commands.done(*said, "--beams=3").stdout.startswith("the ")
    scored = commands.done("perplexity", f"--model={folder}", f"--corpus={corpus_path}").stdout
    assert 1 < float(scored.split("perplexity ")[1].split()[0]) < 150
    predictor = Predictor(f"{folder}/saved_model")
    texts = ["the", "a small", ""]
    (found,) = predictor("generate", text=texts).values()
    greedy = [
        b"".join(part.encode() for part in predictor.stream("generate", text=[t])) for t in texts
    ]
    assert list(found) == greedy
    loaded = tf.saved_model.load(f"{folder}/saved_model").signatures
    assert loaded["generate"](tf.constant(texts))["text"].numpy().tolist() == greedy
    with pytest.raises(InputError, match=r"embed: cannot be streamed; .*: generate"):
        predictor.stream("embed", text=["the"])
    predictor.close()


@pytest.mark.slow
def test_a_gpt_is_fine_tuned_with_its_language_model(gpt, tmp_path):
    _, folder = gpt
    _, output = tune(tmp_path, str(folder), "classification", make_texts)
    found = weights.read(output)
    assert found.config.model_type == "openai-gpt" and not found.generates
    config = found.config.with_dropout(0)
    (task,) = (tasks.load(each) for each in found.tasks)
    model = TaskModel.for_tasks(config, [task])
    weights.assign(model, found.weights, "")
    objective = TaskObjective(model, task)
    ids = tf.constant([[3, 5, 6, 7, 0], [4, 8, 9, 0, 0]])
    batch = {
        "input_word_ids": ids, "input_mask": tf.cast(ids > 0, tf.int32),
        "input_type_ids": tf.zeros_like(ids), "labels": tf.constant([0, 1]),
        "weights": tf.ones(2),
    }  # fmt: skip
    totals = objective.totals(batch)
    assert float(totals["tokens"]) == 5
    plain, counts = objective.batch_loss(batch, totals, training=False)
    assert float(plain) == pytest.approx(float(counts["loss"]) / 2)
    model.heads.of[task.name].rate = 0.0
    both, _ = objective.batch_loss(batch, totals, True, tf.constant(1))
    language = LeftToRight(config)
    weights.assign(language, found.weights, "")
    loss, _ = language.batch_loss(batch, language.totals(batch), training=False)
    assert float(both) == pytest.approx(float(plain + 0.5 * loss), rel=1e-5)


@pytest.mark.slow
def test_a_student_starts_from_its_teacher_and_resumes_without_a_trace_of_it(
    corpus_path, vocab_path, tmp_path
):
    write_examples(
        corpus_path, vocab_path, f"{tmp_path}/t", "--objective=mlm", "--masking=dynamic", *SHORT
    )
    model = config_of("bert", tmp_path)
    commands.done(*command(f"{tmp_path}/t", model, tmp_path / "teacher"))
    words = [w for w in command(f"{tmp_path}/t", model, tmp_path / "s") if "--model" not in w][1:]
    distill = ("distill", f"--teacher={tmp_path}/teacher", *words)
    commands.done(*distill)
    report = json.loads((tmp_path / "s/report.json").read_text())
    assert report["teacher_accuracy"] > 0.2 and report["cosine_loss"] < 1
    student, teacher = weights.read(f"{tmp_path}/s"), weights.read(f"{tmp_path}/teacher")
    assert student.config.model_type == "distilbert" and student.config.num_hidden_layers == 1
    assert student.config.type_vocab_size == 0
    arrays = checkpoints.read_model(f"{tmp_path}/s/checkpoints/checkpoint-00000060")
    assert sum(a.size for a in arrays.values()) < sum(a.size for a in teacher.weights.values())
    # The student of one task learns its teacher's labels from texts without any.
    _, folder = tune(tmp_path, f"{tmp_path}/teacher", "classification", make_texts)
    settings = {"teacher": folder, "unlabelled": f"{tmp_path}/data/test.tsv"}
    (tmp_path / "2").mkdir()
    taught, output = tune(tmp_path / "2", f"{tmp_path}/s", "classification", make_texts, **settings)
    compared = taught["distillation"]
    assert compared["student"]["parameters"] < compared["teacher"]["parameters"]
    assert weights.read(output).config.num_hidden_layers == 1
