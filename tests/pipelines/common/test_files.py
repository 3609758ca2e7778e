"""Paths, names and temporary files: nothing of others is touched, nothing half-written stays."""

import gzip
import os
import random
import subprocess
import sys

import pytest

from pipelines.common import compressed, files, json_files, locks, machine, outputs, path_lists
from pipelines.common.errors import InputError
from pipelines.labelled import text_lines
from pipelines.tokenizers import wordpiece_vocabulary

HOLD = (
    "import sys\nfrom pipelines.common import files\n"
    "with files.folder_aside(sys.argv[1]) as partial:\n"
    "    print(partial, flush=True)\n    sys.stdin.read()\n"
)


@pytest.fixture
def writer(tmp_path):
    """Another process that is writing the folder `out`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, f"{tmp_path}/out"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.partial = process.stdout.readline().strip()
    yield process
    process.kill()
    process.communicate()


@pytest.mark.more
def test_one_writer_at_a_time_and_what_a_killed_one_left_is_removed(tmp_path, writer):
    assert os.path.isdir(writer.partial)
    message = "out: another process is writing there; wait for it"
    with pytest.raises(InputError, match=message), files.folder_aside(f"{tmp_path}/out"):
        pass
    assert os.path.isdir(writer.partial)
    writer.kill()
    writer.wait()
    assert os.path.isdir(writer.partial)
    with files.folder_aside(f"{tmp_path}/out") as partial:
        assert os.listdir(tmp_path) == [os.path.basename(partial)]
    assert os.listdir(tmp_path) == ["out"]


def test_files_that_several_write_are_left_to_the_living(tmp_path):
    path = f"{tmp_path}/a.json"
    dead = tmp_path / "a.json.partial-00000000"
    dead.touch()
    other = tmp_path / "b.a.json.partial-00000000"
    other.touch()
    with files.write_aside(path, shared=True) as first:
        open(first, "w").write("1")
        with files.write_aside(path, shared=True) as second:
            assert os.path.exists(first) and first != second
            open(second, "w").write("2")
    assert open(path).read() == "1"
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.a.json.partial-00000000"]


def test_a_working_folder_is_there_for_a_time(tmp_path):
    left = tmp_path / "a.txt.partial-00000000"
    left.mkdir()
    with files.working_folder(f"{tmp_path}/a.txt") as folder:
        assert os.listdir(tmp_path) == [os.path.basename(folder)] and not left.exists()
        open(f"{folder}/b", "w").close()
        with (
            pytest.raises(InputError, match=r"a\.txt: another process is writing there"),
            files.working_folder(f"{tmp_path}/a.txt"),
        ):
            pass
    with pytest.raises(KeyError), files.working_folder(f"{tmp_path}/a.txt"):
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_a_file_has_one_writer(tmp_path):
    path = f"{tmp_path}/vocab.txt"
    with locks.held_file(files.partial_of(path), path):
        with (
            pytest.raises(InputError, match=r"vocab\.txt: another process is writing there"),
            locks.held_file(files.partial_of(path), path),
        ):
            pass
        files.write_text(path, "whole")
    with locks.held_file(files.partial_of(path), path):
        pass
    assert os.listdir(tmp_path) == ["vocab.txt"]


def test_a_folder_that_is_not_ours_is_refused(tmp_path):
    folder = tmp_path / "out"
    outputs.check_folder(str(folder), "a run", ["run.json"])
    folder.mkdir()
    (folder / ".DS_Store").touch()
    (folder / "x.partial-12345678").touch()
    outputs.check_folder(str(folder), "a run", ["run.json"])
    for name in "abcd":
        (folder / f"{name}.txt").touch()
    with pytest.raises(InputError, match=r"not empty and is not of a run: it has a.txt, b.txt, c"):
        outputs.check_folder(str(folder), "a run", ["run.json"])
    inputs = [f"{folder}/{name}.txt" for name in "ab"]
    outputs.check_folder(str(folder), "a run", ["run.json"], ["c.*", "d.txt"], inputs)
    (folder / "run.json").touch()
    outputs.check_folder(str(folder), "a run", ["run.json"])


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", "a//b", ".", "a\0b", 7])
def test_names_in_files_of_others_stay_inside_their_folder(name):
    with pytest.raises(
        InputError, match=r"index\.json: .* is not the path of a file in its folder"
    ):
        files.inside("folder", name, "index.json")
    assert files.inside("folder", "a/..b.txt", "index.json") == "folder/a/..b.txt"


def test_a_name_that_is_not_utf8_is_reported(tmp_path):
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "w"):
        pass
    for read in (
        lambda: path_lists.expand_globs(f"{tmp_path}/*.txt"),
        lambda: files.names_in(str(tmp_path)),
    ):
        with pytest.raises(InputError, match="caf.*: is a name that is not UTF-8; rename it"):
            read()


def test_patterns_between_quotes_may_hold_blanks_and_commas(tmp_path):
    for name in ("a b.txt", "c,d.txt", "e.txt"):
        (tmp_path / name).touch()
    found = path_lists.expand_globs(f"'{tmp_path}/a b.*' \"{tmp_path}/c,*\", {tmp_path}/e.txt")
    assert [os.path.basename(path) for path in found] == ["a b.txt", "c,d.txt", "e.txt"]
    words = [word.text for word in path_lists.quoted_words("""x='a b', it's  "c,d" e"f 'g""")]
    assert words == ["x=a b", "it's", "c,d", 'e"f', "'g"]


def test_two_stars_stand_for_any_folders(tmp_path):
    found = [tmp_path / name for name in ("a.txt", "b/c.txt", "b/d/e.txt")]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert path_lists.expand_globs(f"{tmp_path}/**/*.txt") == sorted(map(str, found))
    with pytest.raises(InputError, match=r"b: is a folder; name its files, such as '.*/b/\*'"):
        path_lists.expand_globs(f"{tmp_path}/b")


@pytest.mark.parametrize(("text", "limit"), [("150000 100000", 2), ("max 100000", 64)])
def test_cores_are_those_that_a_container_may_use(tmp_path, monkeypatch, text, limit):
    path = tmp_path / "cpu.max"
    path.write_text(f"{text}\n")
    monkeypatch.setattr(machine, "_CPU_LIMIT", str(path))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(64))
    assert machine.cores() == limit


def test_entries_are_names_and_paths(tmp_path):
    for name in ("my model", "a, b", "x=y", "reviews.csv"):
        (tmp_path / name).mkdir()
    text = f"""emotion sms={tmp_path}/my model wnut,news={tmp_path}/a, b
        eq={tmp_path}/x=y 'q={tmp_path}/no such' r="{tmp_path}/n, s" k={tmp_path}/reviews.csv?a=b&c
        m={tmp_path}/a, b?d=e,last={tmp_path}/my model
    """
    assert path_lists.entries(text) == [
        "emotion",
        f"sms={tmp_path}/my model",
        "wnut",
        f"news={tmp_path}/a, b",
        f"eq={tmp_path}/x=y",
        f"q={tmp_path}/no such",
        f"r={tmp_path}/n, s",
        f"k={tmp_path}/reviews.csv?a=b&c",
        f"m={tmp_path}/a, b?d=e",
        f"last={tmp_path}/my model",
    ]
    assert path_lists.entries("a b") == path_lists.entries("a,b") == ["a", "b"]
    assert path_lists.entries(" , ") == []


def test_files_are_read_whole_if_they_end_and_are_small(tmp_path):
    path = str(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match=r"vocab\.txt: no such file"):
        files.read_whole(path)
    with open(path, "wb") as file:
        file.write(b"12345")
    assert files.read_whole(path, 5) == b"12345"
    with pytest.raises(InputError, match="has 5 bytes, and a file of this kind at most 4"):
        files.read_whole(path, 4)
    os.truncate(path, 1 << 40)  # sparse: it takes no space on the disk
    for read in (files.read_whole, wordpiece_vocabulary.read_lines, _json):
        with pytest.raises(InputError, match="has 1,099,511,627,776 bytes"):
            read(path)
    os.remove(path)
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
        make(path)
        for read in (files.read_whole, files.sha256, wordpiece_vocabulary.read_lines, _json):
            with pytest.raises(InputError, match=r"vocab\.txt: is not a regular file"):
                read(path)
        os.rmdir(path) if os.path.isdir(path) else os.remove(path)


def _json(path):
    return json_files.read(path, dict)


def test_a_file_that_unpacks_to_more_than_memory_is_an_error(tmp_path, monkeypatch):
    path = str(tmp_path / "train.tsv.gz")
    with gzip.open(path, "wb") as file:
        file.write(random.Random(0).randbytes(1 << 23).hex().encode())
    assert len(text_lines.read_text(path)) == 1 << 24
    monkeypatch.setattr(compressed.machine, "memory", lambda: 1 << 24)
    with pytest.raises(InputError, match=r"gz: has more than 0\.0 GB, unpacked"):
        text_lines.read_text(path)
    monkeypatch.setattr(text_lines, "_MAX_LINE", 1 << 20)
    with pytest.raises(InputError, match=r"gz: line 1: has more than 1,048,576 bytes"):
        list(text_lines.read_lines(path))


def test_a_path_through_a_folder_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "there").mkdir()
    path = f"{tmp_path}/new/../there/file"
    with pytest.raises(FileNotFoundError), files.write_aside(path, shared=True):
        pass


def test_what_is_named_like_a_partial_folder_is_left_alone(tmp_path):
    for name in ("out.partial-mine", "out.partial-0123456789", "out.partial-0123456G"):
        (tmp_path / name).mkdir()
    with files.folder_aside(f"{tmp_path}/out"):
        pass
    assert len(os.listdir(tmp_path)) == 4


def test_without_locks_nothing_of_others_is_removed(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    path = f"{tmp_path}/a.json"
    with files.write_aside(path, shared=True) as first:
        open(first, "w").write("1")
        with files.write_aside(path, shared=True) as second:
            open(second, "w").write("2")
        assert os.path.exists(first)
    with locks.held(str(tmp_path)), locks.held(str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == ["a.json"]


def test_an_output_may_be_a_link(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        link = tmp_path / f"to_{name}"
        link.symlink_to(tmp_path / name)
        with files.folder_aside(str(link)) as partial:
            (tmp_path / partial / "x").write_text("y")
        assert link.is_symlink() and (tmp_path / name / "x").read_text() == "y"
    (tmp_path / "link").symlink_to(tmp_path / "new")
    with locks.held(str(tmp_path / "link")):
        assert (tmp_path / "new").is_dir()
