"""A training command that is killed and run again ends with the same bits, whatever it trains."""

import functools
import json

import pytest

from bert_tf import weights
from bert_tf.pretraining import milestones
from tests import commands
from tests.bert_tf import labelled_data
from tests.bert_tf.pretraining import runs

pytestmark = pytest.mark.more


def _pretraining(model, objective, kind=None):
    """Makes the words of a pre-training run of a model, from the output folder."""

    def made(folder, corpus, vocab, init):
        if kind:
            vocab = f"{folder}/vocabulary"
            commands.done(
                "learn-vocabulary", f"--corpus={corpus}", f"--output={vocab}", f"--kind={kind}"
            )
        runs.write_examples(
            corpus, vocab, f"{folder}/examples", f"--objective={objective}", *runs.SHORT
        )
        return functools.partial(runs.command, f"{folder}/examples", model)

    return made


def _texts(folder, corpus, vocab, init):
    return functools.partial(labelled_data.command, init, labelled_data.make_texts(folder))


def _texts_and_answers(folder, corpus, vocab, init):
    """A BART that learns to classify and to write."""
    model = labelled_data.write_init(f"{folder}/bart", labelled_data.BART)
    data = f"{labelled_data.make_texts(folder)},{labelled_data.make_answers(folder / 'answers')}"
    both = ("--task=mood=classification,answer=generation", "--max_target_length=8")
    return lambda output: [*labelled_data.command(model, data, output), *both]


RUNS = {
    "BERT": _pretraining("debug", "mlm_nsp"),
    "ELECTRA": _pretraining("electra-debug", "replaced_token"),
    "ELMo": _pretraining("elmo-debug", "bidirectional_lm", kind="word"),
    "fine-tuning": _texts,
    "joint fine-tuning": _texts_and_answers,
}


def _points(output):
    """The points that the run has noted so far."""
    paths = [output / "history.jsonl", *output.glob("runs/*/history.jsonl")]
    return sum(path.read_text().count("\n") for path in paths if path.exists())


def _left(output):
    """What a run leaves: the weights, the scores, and the guesses that it noted on its way."""
    report = json.loads((output / "report.json").read_text())
    names = ("metrics", "masked_lm_accuracy", "perplexity")
    guesses = [line for line in milestones.read(str(output)) if "guesses" in line]
    return weights.read(str(output)).sha256(), [report.get(name) for name in names], guesses


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x != "BERT")) for x in RUNS]
)
def test_a_killed_run_ends_with_the_same_bits(name, tmp_path, corpus_path, vocab_path, init):
    (tmp_path / "answers").mkdir()
    words = RUNS[name](tmp_path, corpus_path, vocab_path, init)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    commands.done(*words(whole))
    for share in (0.2, 0.6):  # twice, at no step in particular
        points = share * _points(whole)
        process = commands.Running(*words(killed))
        assert process.kill_when(lambda points=points: _points(killed) >= points)
        assert not (killed / "report.json").exists()
    # Nor does it matter how many steps a call does.
    commands.done(*words(killed), "--steps_per_execution=4")
    assert _left(killed) == _left(whole)
    assert _points(killed) == _points(whole)
