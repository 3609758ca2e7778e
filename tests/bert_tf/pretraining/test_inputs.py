"""Examples against what the objective needs of them."""

import dataclasses
import types

import pytest

from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.pretraining import inputs, run
from bert_tf.pretraining.settings import (
    DistillationSettings,
    Phase,
    PretrainingSettings,
    RunOptions,
)
from bert_tf.weights import Bundle
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf.helpers import CONFIG
from tests.bert_tf.pretraining.runs import write_examples


def test_examples_without_the_features_are_refused():
    model = MaskedLMNextSentence(CONFIG)
    settings = types.SimpleNamespace(phases=[types.SimpleNamespace(tfrecords="folder")])
    examples = types.SimpleNamespace(names=model.features - {"next_sentence_labels"})
    static = types.SimpleNamespace(training=[examples], objective="mlm_nsp", manifests=())
    with pytest.raises(InputError, match="folder: the examples lack next_.* --objective=mlm_nsp"):
        inputs.check_features(model, settings, static)
    drawn = [{"settings": {"objective": "mlm", "masking": "dynamic"}}]  # in another phase
    dynamic = types.SimpleNamespace(training=[examples], objective="mlm", manifests=drawn)
    with pytest.raises(InputError, match="write them with --masking=static"):
        inputs.check_features(model, settings, dynamic)


@pytest.mark.more
def test_generators_of_phases_hide_as_much(corpus_path, vocab_path, tmp_path):
    flags = ("--objective=replaced_token", "--max_seq_length=32", "--max_predictions_per_seq=5")
    for share in (0.15, 0.5):
        folder = tmp_path / str(share)
        write_examples(corpus_path, vocab_path, folder, *flags, f"--masked_lm_prob={share}")
    phases = tuple(Phase(f"{tmp_path}/{share}", 2, 8) for share in (0.15, 0.5))
    with pytest.raises(InputError, match=r"/0.5: was written with --masked_lm_prob=0.5, but"):
        inputs.open_data(PretrainingSettings(phases=phases, model="electra-debug"))


@pytest.mark.more
def test_examples_of_another_format_are_of_another_run(corpus_path, vocab_path, tmp_path):
    found = []
    for kind in ("sentences", "prose"):
        flags = ("--objective=mlm", f"--format={kind}")
        write_examples(corpus_path, vocab_path, tmp_path / kind, *flags)
        settings = PretrainingSettings(phases=(Phase(f"{tmp_path}/{kind}", 2, 8),), model="debug")
        data = inputs.open_data(settings)
        found.append(inputs.run_identity(settings, data, inputs.model_config(settings, data)))
    assert found[0]["phases"] != found[1]["phases"]


def test_the_teacher_needs_the_positions_too(corpus_path, vocab_path, tmp_path):
    flags = ("--objective=mlm", "--max_seq_length=32", "--max_predictions_per_seq=5")
    write_examples(corpus_path, vocab_path, tmp_path / "mlm", *flags)
    settings = DistillationSettings(phases=(Phase(f"{tmp_path}/mlm", 2, 8),), model="debug")
    data = inputs.open_data(PretrainingSettings(phases=settings.phases))
    short = dataclasses.replace(
        BertConfig.named("debug", vocab_size=len(data.tokenizer.vocabulary)),
        max_position_embeddings=24,
    )
    teacher = Bundle(short, {}, None, None, (), "teacher")
    with pytest.raises(InputError, match="of 32 tokens exceed the teacher's 24 positions"):
        inputs.model_config(settings, dataclasses.replace(data, teacher=teacher))


def test_positions_of_a_roberta_follow_the_padding(corpus_path, vocab_path, tmp_path):
    """Its token 1 is padding in the released vocabulary, and another token in WordPiece."""
    write_examples(corpus_path, vocab_path, tmp_path / "mlm", "--objective=mlm")
    phases = (Phase(f"{tmp_path}/mlm", 2, 8),)
    settings = PretrainingSettings(phases=phases, model="roberta-debug")
    config = inputs.model_config(settings, inputs.open_data(settings))
    assert config.position_offset == 1
    assert config.max_seq_length == BertConfig.named("roberta-debug").max_seq_length


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("gpt2-debug", "read both ways, not a gpt2; write them with --objective=left_to_right"),
        ("electra-debug", "has a generator, for which they must be of replaced_token"),
    ],
)
def test_examples_that_train_something_else_than_the_family_are_refused(
    corpus_path, vocab_path, tmp_path, model, message
):
    """What comes out would be no model of this name to any other program."""
    write_examples(corpus_path, vocab_path, tmp_path / "mlm", "--objective=mlm")
    settings = PretrainingSettings(phases=(Phase(f"{tmp_path}/mlm", 2, 8),), model=model)
    data = inputs.open_data(settings)
    with pytest.raises(InputError, match=message):
        inputs.model_config(settings, data)


def test_an_elmo_takes_sequences_of_any_length(corpus_path, vocab_path, tmp_path):
    words = str(tmp_path / "words")
    commands.done("learn-vocabulary", f"--corpus={corpus_path}", f"--output={words}", "--kind=word")
    flags = ("--objective=bidirectional_lm", "--max_seq_length=600")
    write_examples(corpus_path, words, tmp_path / "long", *flags)
    phases = (Phase(f"{tmp_path}/long", 2, 8),)
    settings = PretrainingSettings(phases=phases, model="elmo-debug")
    config = inputs.model_config(settings, inputs.open_data(settings))
    assert config.max_seq_length == 600


@pytest.mark.more
def test_phases_that_draw_masks_need_the_same_rates(corpus_path, vocab_path, tmp_path):
    def phase(name, *flags):
        dynamic = (
            "--objective=mlm", "--masking=dynamic", "--max_seq_length=32",
            "--max_predictions_per_seq=5",
        )  # fmt: skip
        write_examples(corpus_path, vocab_path, tmp_path / name, *dynamic, *flags)
        return types.SimpleNamespace(tfrecords=f"{tmp_path}/{name}")

    first, more = phase("first"), "--max_predictions_per_seq=9"
    longer = types.SimpleNamespace(phases=[first, phase("longer", more, "--max_seq_length=48")])
    assert inputs.masking(inputs.open_data(longer)).max_predictions == {32: 5, 48: 9}
    for flag in ("--masked_lm_prob=0.3", "--mask_fraction=0.5", more):
        name, _, _ = flag.removeprefix("--").partition("=")
        length = "--max_seq_length=32" if flag == more else "--max_seq_length=48"
        settings = types.SimpleNamespace(phases=[first, phase(name, flag, length)])
        said = rf"/{name}: was written with --{name}=.*/first with .* again"
        with pytest.raises(InputError, match=said):
            inputs.open_data(settings)


def test_evaluations_that_have_no_examples_are_told(
    corpus_path, vocab_path, tmp_path, monkeypatch, caplog
):
    flags = ("--max_seq_length=32", "--max_predictions_per_seq=5")
    write_examples(corpus_path, vocab_path, tmp_path / "data", *flags)
    settings = PretrainingSettings((Phase(str(tmp_path / "data"), 2, 8),), model="debug")
    monkeypatch.setattr(run.lost_workers, "watchdog", lambda *_: 1 / 0)  # ends it before it trains
    for steps, told in ((0, False), (1, True)):
        with pytest.raises(ZeroDivisionError):
            run.pretrain(settings, str(tmp_path / "out"), RunOptions(evaluate_every=steps))
        assert ("--evaluate_every has no effect" in caplog.text) == told
