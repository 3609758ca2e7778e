"""How a run of pre-training begins: weights of another, minutes for steps, corrected mistakes."""

import dataclasses
import json
import math
import shutil
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.models import configs
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import MaskedLM, MaskedLMNextSentence
from bert_tf.pretraining import distillation, first_weights, word_vectors
from bert_tf.pretraining.run import _with_remedy
from bert_tf.pretraining.settings import DistillationSettings, Phase, PretrainingSettings
from bert_tf.training import loop
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.loop import DivergenceError
from bert_tf.training.optimizers import AdamW
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.byte_bpe import ByteBPETokenizer
from tests import commands
from tests.bert_tf.helpers import history_of, report_of
from tests.bert_tf.pretraining.runs import MODEL, command, done, run
from tests.pipelines.tokenizers import byte_bpe_reference

pytestmark = pytest.mark.more

_error = commands.error_of
_PHASES = (Phase("examples", 2, 8),)


@pytest.fixture
def foreign(finished, tmp_path):
    """The path of the same model with another activation, in another format."""
    model = weights.read(str(finished))
    other = dataclasses.replace(model.config, hidden_act="gelu_erf")
    path, kind = f"{tmp_path}/foreign", weights.formats.Format.HUGGINGFACE
    weights.write(dataclasses.replace(model, config=other), path, kind)
    return path


def test_a_run_can_begin_with_the_weights_of_another(finished, tfrecords, model_path, tmp_path):
    checkpoint = finished / "checkpoints" / "checkpoint-00000060"
    flags = ("--steps=5", f"--init={checkpoint}")
    done(tfrecords, model_path, tmp_path / "o", *flags)
    first = history_of(tmp_path / "o")[0]
    fresh = history_of(finished)[0]
    assert first["loss"] < fresh["loss"] - 0.2
    # A run too short to have a speed can be asked for its report again.
    done(tfrecords, model_path, tmp_path / "o", *flags)


def test_a_checkpoint_of_a_run_that_has_not_ended_is_read(finished, tmp_path, tfrecords):
    """It is checked as any model is, by what the run was begun with."""
    run_folder = tmp_path / "run"
    place = "checkpoints/checkpoint-00000060"
    shutil.copytree(finished / place, run_folder / place)
    shutil.copy(finished / "run.json", run_folder)
    path = f"{run_folder}/{place}"
    config = weights.read(str(finished)).config
    assert first_weights.read_config(path) == config
    assert first_weights.read_config(f"{finished}/{place}") == config
    model = MaskedLMNextSentence(config)
    checkpoints = Checkpoints("", loop.state_variables(model, AdamW(0.1)))
    tokenizer = registry.load_tokenizer(str(finished))
    first_weights.initialize(model, checkpoints, tokenizer, str(tfrecords), path)
    # When the run has ended, what began with its checkpoint goes on.
    assert first_weights.checksums(path) == first_weights.checksums(f"{finished}/{place}")
    expected = weights.read(str(finished)).weights["encoder/pooler/kernel"]
    np.testing.assert_array_equal(model.encoder.pooler.kernel.numpy(), expected)
    identity = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps(identity | {"vocabulary_sha256": "other"}))
    with pytest.raises(InputError, match="has another vocabulary than the examples in"):
        first_weights.initialize(model, checkpoints, tokenizer, str(tfrecords), path)


@pytest.mark.parametrize("name", ["lower_case", "strip_accents"])
def test_a_model_of_other_settings_of_the_tokenizer_is_refused(finished, tfrecords, name):
    """Its vocabulary is the same, but the texts would become other tokens."""
    settings = weights.read(str(finished)).resolved_settings()
    cased = registry.load_tokenizer(str(finished), {**settings, name: not settings[name]})
    expected = f"{name}={settings[name]}, but the examples in {tfrecords} were written with"
    model = MaskedLMNextSentence(weights.read(str(finished)).config)
    with pytest.raises(InputError, match=expected):
        first_weights.initialize(model, mock.Mock(), cased, str(tfrecords), str(finished))
    with pytest.raises(InputError, match=expected):
        wanted = DistillationSettings(_PHASES, teacher=str(finished))
        distillation.read_teacher(wanted, cased, str(tfrecords))


def test_what_changes_no_text_of_a_corpus_is_no_other_tokenizer():
    """sentence-transformers strips texts (`strip`); a format may state no settings at all."""
    vocabulary = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 300)
    tokenizer = ByteBPETokenizer(vocabulary)
    for settings in ({"strip": True}, {}, None):
        check = (vocabulary.sha256, settings, tokenizer, "model", "examples")
        first_weights.check_tokenizer(*check)
    spaced = ByteBPETokenizer(vocabulary, add_prefix_space=True)
    with pytest.raises(InputError, match="has add_prefix_space=False, .* were written with True"):
        first_weights.check_tokenizer(vocabulary.sha256, {}, spaced, "model", "examples")


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        (PretrainingSettings(_PHASES), "from it: --init=c, with"),
        (
            PretrainingSettings(_PHASES, sinusoidal_positions=True, pmi_embeddings=True),
            "from it: --init=c --sinusoidal_positions=false --pmi_embeddings=false, with",
        ),
        (DistillationSettings(_PHASES), "with"),
    ],
)
def test_what_to_do_after_a_divergence_can_be_done(settings, start):
    error = DivergenceError("loss", 2, types.SimpleNamespace(steps=lambda: [1], path="c".__mul__))
    told = str(_with_remedy(error, settings))
    assert told.endswith(
        f"Start a new run {start} a lower --learning_rate or a longer --warmup_steps, and another "
        "--output."
    )


@pytest.mark.slow
def test_a_checkpoint_that_is_past_is_named(tmp_path, tfrecords, model_path):
    """The step that --keep_at names in a run that was stopped after it."""
    flags = ("--steps=40", "--batch_size=8")
    done(tfrecords, model_path, tmp_path / "o", *flags)
    for name in ("report.json", "bert_config.json"):  # as if it had been killed before its end
        (tmp_path / "o" / name).unlink()
    process = run(tfrecords, model_path, tmp_path / "o", *flags, "--keep_at=0.25,0.75")
    assert "--keep_at: the run is past step 10 and has no checkpoint of it." in process.stderr


def test_first_weights_must_be_of_the_same_computation(foreign, tfrecords, model_path, tmp_path):
    flag = f"--init={foreign}"
    process = run(tfrecords, model_path, tmp_path / "o", "--steps=5", flag)
    assert "hidden_act is gelu_erf, but gelu in the run; use --model with" in _error(process)


def test_positions_can_begin_as_sinusoids():
    model = MaskedLM(BertConfig.named("tiny", vocab_size=30))
    first_weights.place_sinusoids(model)
    table = model.encoder.embeddings.position.numpy()
    assert table.shape == (512, 128)
    assert np.sqrt(np.mean(table**2)) == pytest.approx(0.02, rel=1e-3)
    # Rows are as long as each other, and the more alike the nearer they are.
    alike = table @ table.T / (128 * 0.02**2)
    np.testing.assert_allclose(np.diag(alike), 1, rtol=1e-5)
    assert alike[100, 101] > alike[100, 102] > alike[100, 104] > alike[100, 120]
    np.testing.assert_allclose(alike[3, 5], alike[400, 402], rtol=1e-5)
    # The formula of Vaswani et al., but for its scale.
    assert table[7, 10] == pytest.approx(0.02 * 2**0.5 * math.sin(7 / 10_000 ** (10 / 128)))
    assert table[7, 11] == pytest.approx(0.02 * 2**0.5 * math.cos(7 / 10_000 ** (10 / 128)))


def test_positions_of_a_decoder_begin_as_sinusoids_too():
    model = Denoising(BertConfig.named("bart-debug", vocab_size=30))
    first_weights.place_sinusoids(model)
    tables = model.encoder.embeddings.position, model.encoder.embeddings.decoder.position
    np.testing.assert_array_equal(*(table.numpy() for table in tables))


@pytest.mark.parametrize("family", ["", "roberta-", "electra-", "distilbert-", "albert-", "bart-"])
def test_dropout_may_differ_from_that_of_the_first_weights(family):
    config = configs.named(f"{family}debug", vocab_size=30)
    first_weights._check_same_model(config.with_dropout(0.0), config, "init")


def test_a_model_without_positions_is_refused():
    model = BidirectionalLM(ElmoConfig.named("debug", vocab_size=30))
    with pytest.raises(InputError, match="model_type 'elmo' has no position embeddings"):
        first_weights.place_sinusoids(model)
    with pytest.raises(InputError, match="model_type 'elmo' has no word embeddings"):
        word_vectors.place(model, None, None, 1)


def test_first_weights_can_be_asked_for(tfrecords, model_path, tmp_path):
    """A run of a step at a rate of next to nothing leaves them as they are."""
    still = ("--steps=1", "--warmup_steps=0", "--learning_rate=1e-12")
    flags = ("--sinusoidal_positions", "--initializer_range=0.1", "--pmi_embeddings")
    done(tfrecords, model_path, tmp_path / "o", *still, *flags)
    found = weights.read(str(tmp_path / "o")).weights
    expected = first_weights.sinusoids(64, 32, 0.1)
    np.testing.assert_allclose(found["encoder/embeddings/position_embeddings"], expected, atol=1e-6)
    words = found["encoder/embeddings/word_embeddings"]
    norms = np.linalg.norm(words, axis=1)
    # Rows of tokens with neighbours are as long as each other; special tokens have random ones.
    assert np.isclose(norms, 0.1 * words.shape[1] ** 0.5, rtol=1e-4).sum() >= 40
    assert np.std(words[:5]) == pytest.approx(0.088, rel=0.2)
    for flag in ("--sinusoidal_positions", "--pmi_embeddings"):
        process = run(tfrecords, model_path, tmp_path / "p", flag, f"--init={tmp_path / 'o'}")
        assert f"{flag} has no effect with --init" in _error(process)


def test_a_run_takes_the_minutes_it_is_given_and_is_otherwise_as_any(
    tfrecords, model_path, tmp_path
):
    folders = {name: tmp_path / name for name in ("timed", "resumed", "plain")}
    flags = ("--minutes=0.1", "--save_every=7", "--warmup_steps=2")
    timed = done(tfrecords, model_path, folders["timed"], *flags)
    ending = json.loads((folders["timed"] / "ending.json").read_text())
    steps, decay = ending["total_steps"], ending["decay_steps"]
    assert f"learning rate falls: {steps} steps in all" in timed.stderr
    points = history_of(folders["timed"])
    assert points[-1]["step"] == steps and points[-1]["learning_rate"] == 0
    # One that is stopped while the rate falls goes on to the same end.
    shutil.copytree(folders["timed"], folders["resumed"])
    for path in (folders["resumed"] / "checkpoints").glob(f"*-{steps:08}*"):
        shutil.rmtree(path)
    (folders["resumed"] / "report.json").unlink()
    done(tfrecords, model_path, folders["resumed"], *flags)
    plain = (f"--steps={steps}", f"--decay_fraction={decay / steps}", "--warmup_steps=2")
    done(tfrecords, model_path, folders["plain"], *plain)
    reports = [report_of(path) for path in folders.values()]
    assert {report["steps"] for report in reports} == {steps}
    assert len({report["weights_sha256"] for report in reports}) == 1
    again = done(tfrecords, model_path, folders["timed"], *flags, "--data_source=a book")
    assert "is complete; nothing to do" in again.stderr
    assert "--data_source comes too late" in again.stderr
    other = run(tfrecords, model_path, folders["timed"], *flags, "--minutes=0.2")
    assert "minutes (was 0.1, now 0.2)" in _error(other)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--minutes=1", "--keep_at=0.5"], "fractions of --steps, which are not known"),
        (["--minutes=1", "--data_service=grpc://h:1"], "--data_service: needs --steps, which are"),
        (
            [
                *("--decay_fraction=0.5", "--learning_rate=1e-3,1e-3", "--warmup_steps=1,1"),
                *("--tfrecords={0},{0}", "--steps=5,5"),
            ],
            "--decay_fraction requires a single --learning_rate",
        ),
        (["--minutes=1", "--tfrecords={0},{0}", "--steps=5,5"], "--minutes is for one phase"),
    ],
)
def test_what_does_not_go_with_minutes_is_told(flags, told, tfrecords, model_path, tmp_path):
    flags = [flag.format(tfrecords) for flag in flags]
    assert told in _error(run(tfrecords, model_path, tmp_path / "o", *flags))
    # A start that failed leaves nothing that the corrected command would have to match.
    assert not (tmp_path / "o").exists()


def test_other_weights_in_the_same_place_are_of_another_run(
    finished, tfrecords, model_path, tmp_path
):
    shutil.copytree(finished, tmp_path / "init")
    flags = ("--steps=2", "--batch_size=8", f"--init={tmp_path}/init")
    done(tfrecords, model_path, tmp_path / "o", *flags)
    done(tfrecords, model_path, tmp_path / "o", *flags)
    model = weights.read(f"{tmp_path}/init")
    shutil.rmtree(tmp_path / "init")
    doubled = {name: 2 * value for name, value in model.weights.items()}
    weights.write(dataclasses.replace(model, weights=doubled), f"{tmp_path}/init")
    process = run(tfrecords, model_path, tmp_path / "o", *flags)
    assert "is of a run with other settings: init.weights" in _error(process)


def test_a_start_that_failed_can_be_corrected(foreign, tfrecords, model_path, tmp_path):
    flag = f"--init={foreign}"
    assert run(tfrecords, model_path, tmp_path / "o", "--steps=5", flag).returncode == 2
    assert (tmp_path / "o" / "run.json").exists()
    done(tfrecords, model_path, tmp_path / "o", "--steps=4")
    # What has begun is another run's, though.
    assert run(tfrecords, model_path, tmp_path / "o", "--steps=3").returncode == 2


def test_sizes_are_those_of_the_model_that_the_run_begins_with(finished, tfrecords, tmp_path):
    arguments = [a for a in command(tfrecords, "", tmp_path / "o") if "--model=" not in a]
    commands.done(*arguments, "--steps=3", f"--init={finished}")
    config = json.loads((tmp_path / "o" / "bert_config.json").read_text())
    assert config["hidden_size"] == MODEL.hidden_size


@pytest.mark.slow
def test_a_run_on_a_data_service_is_as_any(tfrecords, model_path, tmp_path):
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    where = dispatcher.target.removeprefix("grpc://")
    workers = [service.WorkerServer(service.WorkerConfig(where)) for _ in range(2)]
    remote = [f"--data_service={dispatcher.target}", "--data_service_workers=2"]
    for name, flags in (("here", []), ("there", [*remote, "--steps_per_execution=4"])):
        done(tfrecords, model_path, tmp_path / name, "--steps=12", *flags)
    reports = [report_of(tmp_path / n) for n in ("here", "there")]
    assert reports[0]["weights_sha256"] == reports[1]["weights_sha256"]
    del workers
    wrong = run(tfrecords, model_path, tmp_path / "o", "--data_service=localhost:5000")
    assert "--data_service=localhost:5000: it must be grpc://host:port" in _error(wrong)
