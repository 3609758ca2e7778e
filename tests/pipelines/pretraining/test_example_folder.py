"""Folders of examples: what is removed of them."""

import contextlib
import json
import os
import signal

import pytest

from pipelines.common import stopping
from pipelines.pretraining import example_folder, example_writer
from tests.pipelines.pretraining.written import HERE, request


def test_a_vocabulary_that_was_lost_is_written_again(corpus_path, vocab_path, tmp_path):
    wanted = request(corpus_path, vocab_path, tmp_path / "o")
    example_writer.write(wanted, HERE)
    (tmp_path / "o/vocab.txt").unlink()
    example_writer.write(wanted, HERE)
    assert example_folder.read_vocabulary(f"{tmp_path}/o").tokens


def test_settings_of_a_tokenizer_may_be_numbers(corpus_path, vocab_path, tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v/vocab.txt").write_text(open(vocab_path).read())
    settings = {"lower_case": True, "strip_accents": True, "max_characters_per_word": 50}
    (tmp_path / "v/tokenizer_config.json").write_text(json.dumps(settings))
    wanted = request(corpus_path, f"{tmp_path}/v", tmp_path / "o")
    example_writer.write(wanted, HERE)
    found = example_folder.read_manifest(f"{tmp_path}/o")["tokenizer"]
    assert found["max_characters_per_word"] == 50


@pytest.mark.parametrize("given", [False, True])
def test_a_vocabulary_is_removed_with_the_examples_unless_it_was_there(
    corpus_path, vocab_path, tmp_path, given, monkeypatch
):
    """Whether they are complete, were only begun, or lost a file and were begun again."""
    output = tmp_path / "o"
    output.mkdir()
    place = output / "vocab.txt" if given else tmp_path / "vocab.txt"
    place.write_text(open(vocab_path).read())
    wanted = request(corpus_path, str(place), output)

    def stop(*_):
        raise stopping.Stopped(signal.SIGTERM)

    for begun in (True, False):
        with monkeypatch.context() as patched:
            if begun:
                patched.setattr(example_writer, "_write_units", stop)
            with contextlib.suppress(stopping.Stopped):
                example_writer.write(wanted, HERE)
                next(output.glob("train-*")).unlink()
                example_writer.write(wanted, HERE)
        assert (output / "vocab.txt").exists()
        example_folder.remove(str(output))
        assert (os.listdir(output) if output.exists() else []) == ["vocab.txt"] * given
