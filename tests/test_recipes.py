"""Recipes of pre-training make settings that are whole, with the published sums."""

import json
from pathlib import Path

import pytest

from bert_tf.commands import pretrain
from pipelines.common import arguments, command_line
from pipelines.common.settings import arguments_of

ROOT = Path(__file__).parent.parent
NAMES = (
    *("adaptation", "albert", "bart", "base", "builtin", "day", "electra", "gpt", "lamb", "large"),
    "modernbert",
)


@pytest.fixture(scope="module")
def settings():
    """What the recipes of pre-training ask for, by name; they have passed `check`."""
    found = {}
    for name in NAMES:
        words = [f"--flagfile={ROOT}/recipes/{name}.flags"]
        if "--tfrecords" not in (ROOT / f"recipes/{name}.flags").read_text():
            words.append("--tfrecords=tfrecords/pretraining")
        arguments.parse(words, command_line.flags_of("bert_tf.commands.pretrain"))
        given = arguments_of(pretrain.main)
        found[name] = given["settings"].from_flags(phases=given["phases"].phases()).describe()
    return found


def test_recipes_of_pretraining_are_whole(settings):
    of_pretraining = {p.stem for p in (ROOT / "recipes").glob("*") if "\n--steps" in p.read_text()}
    assert of_pretraining == {*NAMES, "distillation"}
    for name, found in settings.items():
        assert found["phases"], name
        optimizers = {"lamb": "lamb", "albert": "lamb", "builtin": "muon", "modernbert": "muon"}
        assert found["optimizer"] == optimizers.get(name, "adamw")
        assert len(found["learning_rates"]) == (2 if name == "lamb" else 1)


def test_mixed_batches_see_as_many_sequences_as_the_paper(settings):
    found = settings["lamb"]
    steps = [phase["steps"] for phase in found["phases"]]
    sequences = [phase["steps"] * phase["batch_size"] for phase in found["phases"]]
    assert sum(steps) == 8599
    assert sum(sequences) == pytest.approx(15_625 * 32_768, rel=1e-3)
    assert sequences[0] / sum(sequences) == pytest.approx(0.9, abs=1e-3)


def test_the_warm_up_of_the_day_is_six_hundredths(settings):
    found = settings["day"]
    (phase,) = found["phases"]
    assert found["minutes"] == 24 * 60
    assert found["warmup_steps"] == [pytest.approx(0.06 * phase["steps"])]
    assert found["decay_fraction"] == pytest.approx(1 - 0.06)
    assert phase["batch_size"] % (8 * found["accumulation"]) == 0


def test_the_parts_of_the_day_fit_its_devices(settings):
    part = settings["day"]["phases"][0]["batch_size"] // 8 // settings["day"]["accumulation"]
    rows = json.loads((ROOT / "benchmarks" / "fits.json").read_text())
    (fits,) = (
        row for row in rows
        if (row["size"], row["length"], row["precision"]) == ("large", 128, "float32")
        and not row["rematerialize"]
    )  # fmt: skip
    free = 0.9 * 12 * (1 << 30) - fits["fixed_bytes"]
    assert (
        int((free - 16 * fits["weights"]) / fits["bytes_a_sequence"])
        == (fits["max_sequences"]["12 GB"])
    )
    assert part <= (free - 20 * fits["weights"]) / fits["bytes_a_sequence"]  # gradients are summed
