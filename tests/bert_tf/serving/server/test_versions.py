"""Which versions are served as folders come, go, and are damaged."""

import asyncio
import os
import shutil
import types

import pytest

from bert_tf.export.saved_model import newest
from bert_tf.serving.server import rest
from bert_tf.serving.server.answers import Answerer, Metrics, RequestLimits
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.versions import Versions, VersionState, newest_complete
from pipelines.common.errors import InputError


class _Predictor:
    closed = False

    def close(self):
        self.closed = True


class _Folder:
    """A folder of versions, some of which cannot be loaded."""

    def __init__(self, path, count=1):
        self.path, self.bad, self.loaded, self.made = path, {}, [], {}
        self.versions = Versions(str(path), count, self._load)

    def put(self, number, error=None):
        folder = self.path / str(number)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        self.bad[number] = error

    def remove(self, number):
        shutil.rmtree(self.path / str(number))

    def _load(self, path):
        number = int(path.rpartition("/")[2])
        self.loaded.append(number)
        if self.bad[number]:
            raise self.bad[number]
        self.made[number] = _Predictor()
        return self.made[number]

    def served(self, polls=1):
        """The versions that are served after so many looks."""
        for _ in range(polls):
            self.versions.refresh()
        return {v.number for v in self.versions.known if v.state is VersionState.AVAILABLE}


@pytest.mark.parametrize(("count", "wanted"), [(1, {3}), (2, {2, 3})])
def test_the_newest_are_served_and_others_let_go(tmp_path, count, wanted):
    folder = _Folder(tmp_path, count)
    for number in (1, 2, 3):
        folder.put(number)
        assert max(folder.served()) == number
    assert folder.served() == wanted and folder.loaded == [1, 2, 3]
    assert {n for n, made in folder.made.items() if made.closed} == {1, 2, 3} - wanted


@pytest.mark.parametrize(("count", "wanted"), [(1, {1}), (2, {1})])
def test_a_newest_that_is_removed_gives_way_to_the_one_before(tmp_path, count, wanted):
    folder = _Folder(tmp_path, count)
    folder.put(1)
    folder.put(2)
    assert 2 in folder.served()
    folder.remove(2)
    assert folder.served(polls=4) == wanted
    assert folder.loaded.count(1) == 1 and folder.made[2].closed
    with folder.versions.use(None) as (number, _):
        assert number == 1


def test_where_all_are_away_what_is_served_stays(tmp_path):
    folder = _Folder(tmp_path)
    folder.put(1)
    assert folder.served() == {1}
    folder.remove(1)
    assert folder.served(polls=3) == {1} and not folder.made[1].closed


def test_a_damaged_version_is_named_once_and_tried_less_and_less_often(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(1)
    folder.put(2, InputError("variables: is damaged, or was changed."))
    folder.served()
    assert folder.served(polls=40) == {1}
    assert folder.loaded.count(2) == 6  # looks 1, 2, 4, 8, 16 and 32
    assert caplog.text.count("version 2 is not served") == 1
    (version,) = (v for v in folder.versions.known if v.number == 2)
    assert version.state is VersionState.END and version.error.startswith("variables:")
    folder.bad[2] = None
    assert folder.served(polls=64) == {2}
    (version,) = (v for v in folder.versions.known if v.number == 2)
    assert version.error == ""


def test_a_model_that_cannot_be_loaded_does_not_keep_others_from_being_ready(tmp_path):
    good, bad = _Folder(tmp_path / "good"), _Folder(tmp_path / "bad")
    good.put(1)
    bad.put(1, InputError("no"))
    models = {"good": good.versions, "bad": bad.versions}
    limits, metrics = RequestLimits(8, 1000, 1, 1.0), Metrics(lambda: 0)
    answerer = Answerer(models, limits, metrics)
    bad.served()
    assert not answerer.ready  # the other one is still to come
    assert good.served() and not bad.served() and answerer.ready
    assert not Answerer({"bad": bad.versions}, limits, metrics).ready


def test_a_version_that_is_copied_in_steps_is_served_when_it_is_whole(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(1)
    assert folder.served() == {1}
    folder.bad[2] = None
    copy = tmp_path / "2"
    copy.mkdir()
    steps = {
        "manifest.json": '{"files": {"saved_model.pb": "", "parts/saved_model.pb": ""}}',
        "saved_model.pb": "graph",
        "parts/saved_model.pb": "graph",
        "assets.extra/tf_serving_warmup_requests": "requests",
    }
    for name, text in steps.items():
        assert folder.served(polls=1) == {1} and 2 not in folder.loaded
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text)
    assert folder.served(polls=1) == {1}  # more might come
    assert folder.served(polls=1) == {2} and folder.loaded == [1, 2]
    assert caplog.text.count("version 2 is not served") == 1


def test_what_changes_while_it_cannot_be_loaded_is_tried_soon(tmp_path):
    folder = _Folder(tmp_path)
    folder.put(1, InputError("damaged"))
    assert folder.served(polls=40) == set()
    (tmp_path / "1" / "saved_model.pb").write_text("graph")
    folder.bad[1] = None
    assert folder.served(polls=2) == {1}


def test_a_version_that_is_replaced_is_loaded_again(tmp_path):
    folder = _Folder(tmp_path)
    folder.put(1)
    assert folder.served(polls=3) == {1} and folder.loaded == [1]
    first = folder.made[1]
    manifest = tmp_path / "1" / "manifest.json"
    manifest.write_text('{"date": "other"}')
    folder.bad[1] = InputError("damaged")
    with folder.versions.use(1) as (_, predictor):
        assert folder.served() == {1} and not first.closed and predictor is first
    folder.bad[1] = None
    os.utime(manifest)
    assert folder.served(polls=2) == {1} and first.closed
    with folder.versions.use(None) as (_, predictor):
        assert predictor is folder.made[1] is not first
    assert folder.loaded == [1, 1, 1] and folder.served(polls=5) == {1} and len(folder.loaded) == 3


def test_numbers_beyond_int64_are_no_versions(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(7)
    for name in ("99999999999999999999", "9223372036854775808", "008", "\u0663"):
        (tmp_path / name).mkdir()
    assert folder.served(polls=3) == {7}
    assert [version.number for version in folder.versions.known] == [7]
    assert caplog.text.count("9" * 20) == 1


def test_what_is_not_a_folder_is_not_a_version(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(3)
    (tmp_path / "7").touch()
    os.mkfifo(tmp_path / "8")
    (tmp_path / "9").symlink_to("nowhere")
    assert folder.served(polls=3) == {3}
    assert [version.number for version in folder.versions.known] == [3]
    for number in (7, 8, 9):
        assert caplog.text.count(f"/{number}: is not a version") == 1
    assert newest(str(tmp_path)).endswith("/3")


def test_a_version_that_cannot_be_searched_does_not_stop_the_others(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(1)
    folder.put(2)
    with open(os.fsencode(tmp_path / "2") + b"/\xff", "wb"):
        pass
    assert folder.served(polls=20) == {1}
    assert caplog.text.count("version 2 is not served") == 1
    os.remove(os.fsencode(tmp_path / "2") + b"/\xff")
    assert folder.served(polls=20) == {2}


def test_versions_that_were_removed_are_forgotten(tmp_path):
    folder = _Folder(tmp_path)
    for number in (1, 2, 3):
        folder.put(number)
        folder.served()
    folder.put(4, InputError("damaged"))
    assert folder.served() == {3} and len(folder.versions.known) == 4
    for number in (1, 4):
        folder.remove(number)
    folder.served()
    assert [version.number for version in folder.versions.known] == [3, 2]
    folder.remove(3)  # served until another one is
    folder.served(polls=2)
    assert [version.number for version in folder.versions.known] == [2]


def test_the_newest_complete_version_is_found(two_tasks, tmp_path):
    folder = str(tmp_path)
    with pytest.raises(InputError, match="has no exported version"):
        newest_complete(folder)
    shutil.copytree(two_tasks, tmp_path / "1")
    shutil.copytree(two_tasks, tmp_path / "2")
    for spoilt in ("variables/variables.index", "manifest.json"):
        assert newest_complete(folder) == f"{folder}/2"
        os.truncate(tmp_path / "2" / spoilt, 10)
        assert newest_complete(folder) == f"{folder}/1"
        shutil.copy(f"{two_tasks}/{spoilt}", tmp_path / "2" / spoilt)
    (tmp_path / "3").mkdir()
    assert newest_complete(folder) == f"{folder}/2" and newest_complete(two_tasks) == two_tasks
    shutil.rmtree(tmp_path / "1")
    shutil.rmtree(tmp_path / "2")
    with pytest.raises(InputError, match=r"3: is not complete: it has no manifest\.json"):
        newest_complete(folder)


def test_an_error_of_a_file_system_is_told_and_tried_again(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(1, OSError(5, "Input/output error"))
    assert folder.served() == set()
    assert "version 1 is not served: OSError: " in caplog.text
    with pytest.raises(RefusalError, match="being loaded"), folder.versions.use(None):
        pass
    folder.bad[1] = None
    assert folder.served() == {1}


def test_a_version_whose_files_are_restored_has_no_error(tmp_path, caplog):
    folder = _Folder(tmp_path)
    folder.put(1)
    assert folder.served() == {1}
    manifest = tmp_path / "1" / "manifest.json"
    manifest.write_text('{"date": "other"}')
    folder.bad[1] = InputError("damaged")
    assert folder.served(polls=3) == {1} and folder.versions.known[0].error == "damaged"
    assert "version 1 is served as it was: damaged" in caplog.text
    manifest.write_text("{}")
    assert folder.served() == {1} and not folder.versions.known[0].error


@pytest.mark.parametrize("path", ["/", "/v1/models/bert", "/v1/embeddings"])
def test_a_browser_that_is_early_asks_for_the_page_again(path):
    request = types.SimpleNamespace(scope={"path": path})
    answers = [
        asyncio.run(rest._refused(request, RefusalError(fault, "The model is being loaded.")))
        for fault in (Fault.UNAVAILABLE, Fault.BUSY)
    ]
    assert [answer.status_code for answer in answers] == [503, 429]
    expected = ["2" if path == "/" else None, None]
    assert [answer.headers.get("refresh") for answer in answers] == expected
