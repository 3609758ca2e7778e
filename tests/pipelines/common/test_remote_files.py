"""File systems that TensorFlow does not reach: HDFS by its web interface, and memory."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from pipelines.common import files, json_files, manifest, outputs, path_lists, remote_files
from pipelines.common.errors import InputError
from tests import webhdfs
from tests.ports import free_ports


@pytest.fixture(params=["webhdfs", "memory"])
def folder(request, tmp_path):
    """A folder that is there."""
    if request.param == "webhdfs":
        with webhdfs.serving(tmp_path) as found:
            files.gfile.makedirs(f"{found}/a folder")
            yield f"{found}/a folder"
    else:
        found = f"memory://{tmp_path.name}/a folder"
        files.gfile.makedirs(found)
        yield found
        files.remove_tree(found)


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("webhdfs://host/x", True), ("memory://x", True), ("s3://bucket/x", True),
        ("gs://bucket/x", False), ("ram://x", False), ("x", False), ("/a://b", False),
        ("cns://x", False),
    ],
)  # fmt: skip
def test_what_tensorflow_reaches_is_its_own(path, reached):
    assert remote_files.reaches(path) == reached


def test_files_are_written_and_read(folder):
    text = "Grüße\n" * 1000
    files.write_text(f"{folder}/new/text.txt", text)
    with files.gfile.GFile(f"{folder}/new/text.txt") as file:
        assert file.read() == text
    with files.open_binary(f"{folder}/new/text.txt") as file:
        file.seek(8)
        assert file.read(7) == "Grüße".encode()
    assert files.gfile.stat(f"{folder}/new/text.txt").length == len(text.encode())
    json_files.write(f"{folder}/new/values.json", {"a": 1})
    json_files.write(f"{folder}/new/values.json", {"a": 2}, shared=True)
    assert json_files.read(f"{folder}/new/values.json", dict) == {"a": 2}
    assert files.names_in(f"{folder}/new") == ["text.txt", "values.json"]


def test_names_are_found(folder):
    for name in ("b/1.txt", "b/2.txt", "b/c/3.txt", "b/[x].txt"):
        files.write_text(f"{folder}/{name}", name)
    assert path_lists.expand_globs(f"'{folder}/b/?.txt'") == [
        f"{folder}/b/1.txt",
        f"{folder}/b/2.txt",
    ]
    assert path_lists.expand_globs(f"'{folder}/b/[x].txt'") == [f"{folder}/b/[x].txt"]
    assert files.matching(f"{folder}/b", "*.txt") == [
        f"{folder}/b/{name}.txt" for name in ("1", "2", "[x]")
    ]
    found = {place: (set(inner), set(names)) for place, inner, names in files.gfile.walk(folder)}
    assert found == {
        folder: ({"b"}, set()),
        f"{folder}/b": ({"c"}, {"1.txt", "2.txt", "[x].txt"}),
        f"{folder}/b/c": (set(), {"3.txt"}),
    }
    assert files.gfile.isdir(f"{folder}/b") and not files.gfile.isdir(f"{folder}/b/1.txt")
    assert not files.gfile.exists(f"{folder}/none") and not files.gfile.isdir(f"{folder}/none")


def test_the_folder_of_the_user_is_found_in_lists(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", f"{tmp_path}")
    for name in ("a.txt", "b.txt", "folder/c.txt"):
        files.write_text(f"{tmp_path}/{name}", name)
    wanted = [f"{tmp_path}/{name}.txt" for name in "ab"]
    assert path_lists.expand_globs("~/*.txt") == wanted
    assert path_lists.expand_globs("~/a.txt,~/b.txt") == wanted
    with pytest.raises(InputError, match="folder: is a folder; name its files"):
        path_lists.expand_globs("~/folder")
    assert path_lists.entries("mrpc=~/folder,cola") == [f"mrpc={tmp_path}/folder", "cola"]
    assert path_lists.named_folders(["~/folder/", "x"]) == [f"{tmp_path}/folder", "x"]


def test_folders_appear_whole_and_go(folder):
    with files.folder_aside(f"{folder}/made") as partial:
        files.write_text(f"{partial}/inner/x", "x")
        manifest.write_sealed(f"{partial}/{manifest.CHECKSUMS}", {}, ["inner/x"])
    assert files.names_in(folder) == ["made"]
    manifest.check(f"{folder}/made/checksums.json")
    files.write_text(f"{folder}/made/inner/x", "y")
    with pytest.raises(InputError, match="inner/x"):
        manifest.check(f"{folder}/made/checksums.json")
    with pytest.raises(InputError, match="exists already"), files.folder_aside(f"{folder}/made"):
        pass
    with pytest.raises(KeyError), files.write_aside(f"{folder}/made/z") as partial:
        files.write_text(partial, "half")
        raise KeyError
    assert files.names_in(f"{folder}/made") == ["checksums.json", "inner"]
    files.remove_tree(f"{folder}/made")
    assert files.names_in(folder) == []


def test_names_that_are_taken_stay(folder):
    for name in "ab":
        files.write_text(f"{folder}/{name}", name)
    with pytest.raises(tf.errors.AlreadyExistsError, match="exists already"):
        files.gfile.rename(f"{folder}/a", f"{folder}/b")
    files.gfile.rename(f"{folder}/a", f"{folder}/b", overwrite=True)
    with files.open_binary(f"{folder}/b") as file:
        assert file.read() == b"a"


def test_a_file_that_is_replaced_by_an_equal_one_stays(folder, monkeypatch):
    """Else there would be a moment without it."""
    for name in "ab":
        files.write_text(f"{folder}/{name}", "the same")
    with monkeypatch.context() as patch:
        patch.setattr(remote_files, "_move", None)
        files.gfile.rename(f"{folder}/a", f"{folder}/b", overwrite=True)
    assert files.names_in(folder) == ["b"]
    files.write_text(f"{folder}/a", "the last")
    files.gfile.rename(f"{folder}/a", f"{folder}/b", overwrite=True)
    with files.open_binary(f"{folder}/b") as file:
        assert file.read() == b"the last"


def test_what_is_not_there(folder):
    for function in (files.gfile.stat, files.gfile.listdir, files.gfile.remove):
        with pytest.raises(tf.errors.NotFoundError, match="none"):
            function(f"{folder}/none")
    with pytest.raises(tf.errors.NotFoundError, match="none"):
        files.gfile.rename(f"{folder}/none", f"{folder}/other")
    with pytest.raises(InputError, match="no such file"):
        files.open_binary(f"{folder}/none")


def test_what_cannot_be_reached_is_no_missing_file():
    (port,) = free_ports(1)
    path = f"webhdfs://127.0.0.1:{port}/x"
    with pytest.raises(tf.errors.UnavailableError, match=f"{path}: cannot be reached"):
        files.gfile.exists(path)
    with pytest.raises(tf.errors.UnavailableError, match="box://x: cannot be reached .*boxfs"):
        files.gfile.exists("box://x")


def test_a_file_of_unknown_size_is_told(folder, monkeypatch):
    with files.gfile.GFile(f"{folder}/x", "w") as file:
        file.write("x")
    found = remote_files._info(f"{folder}/x")
    monkeypatch.setattr(remote_files, "_info", lambda path: {**found, "size": None})
    with pytest.raises(tf.errors.UnavailableError, match="/x: its size is unknown; copy it here"):
        files.gfile.stat(f"{folder}/x")


def test_several_files_of_a_server_are_several(folder):
    for name in "ab":
        files.write_text(f"{folder}/{name}.txt", name)
    both = [f"{folder}/a.txt", f"{folder}/b.txt"]
    assert path_lists.expand_globs(",".join(f"'{path}'" for path in both)) == both
    files.gfile.makedirs(f"{folder}/c")
    assert path_lists.named_folders([f"{folder}/c", f"{folder}/d"]) == [
        f"{folder}/c",
        f"{folder}/d",
    ]


def test_names_with_brackets_are_no_patterns(folder):
    for name in ("a1/x", "a[1]/x", "a[1]/y/z"):
        files.write_text(f"{folder}/{name}", name)
    files.remove_tree(f"{folder}/a[1]")
    assert files.names_in(folder) == ["a1"] and files.names_in(f"{folder}/a1") == ["x"]


def test_lines_are_read_over_the_ends_of_blocks(folder, monkeypatch):
    monkeypatch.setattr(remote_files, "_BLOCK", 64)
    lines = [f"line {number}\r\n" for number in range(100)]
    with files.gfile.GFile(f"{folder}/x", "w") as file:
        file.write("".join(lines))
    with files.gfile.GFile(f"{folder}/x") as file:
        assert list(file) == lines
    with files.open_binary(f"{folder}/x") as file:
        assert file.readline(3) == b"lin" and file.readline() == b"e 0\r\n"
        assert file.seek(-8, os.SEEK_END) and file.read() == b"ine 99\r\n"
    with pytest.raises(tf.errors.UnimplementedError, match="x: cannot be opened there to add"):
        files.gfile.GFile(f"{folder}/x", "a")


def test_a_page_that_tells_of_an_error_is_no_text(tmp_path):
    (tmp_path / "x").write_text("x" * 1000)
    unreached = pytest.raises(tf.errors.UnavailableError, match="x: cannot be reached")
    with webhdfs.serving(tmp_path, failing=True) as place, unreached:
        files.sha256(f"{place}/x")


def test_of_several_who_write_one_file_each_ends_well(tmp_path):
    def write(number):
        for _ in range(10):
            with (
                files.write_aside(f"{place}/x", shared=True) as partial,
                files.gfile.GFile(partial, "wb") as file,
            ):
                file.write(b"same")

    with webhdfs.serving(tmp_path) as place, ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"same"


@pytest.mark.parametrize("what", ["a training run", "exported versions"])
def test_what_tensorflow_writes_goes_where_it_reaches(what):
    with pytest.raises(InputError, match=f"TensorFlow, which writes {what}, does not reach it"):
        outputs.check_folder("webhdfs://host/x", what, ())
