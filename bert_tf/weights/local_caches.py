"""Models that other libraries have downloaded to this machine, by their names there."""

import os
import re

from pipelines.common import files

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_REVISION = "main"


def find(name: str) -> str | None:
    """The folder of a model in the cache of Hugging Face or KerasHub, or None.

    Args:
      name: such as "bert-base-uncased" or "google-bert/bert-base-uncased"; the name alone finds a
        model of any owner, if there is one.
    """
    if not _NAME.fullmatch(name):
        return None
    return _in_huggingface(name) or _in_kaggle(name)


def _in_huggingface(name: str) -> str | None:
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", f"{caches}/huggingface")
    cache = os.path.expanduser(os.environ.get("HF_HUB_CACHE", f"{home}/hub"))
    stored = name.replace("/", "--")
    for folder in (
        *files.matching(cache, f"models--{stored}"),
        *files.matching(cache, f"models--*--{stored}"),
    ):
        revision = f"{folder}/refs/{_REVISION}"
        if not files.gfile.exists(revision):
            continue
        snapshot = f"{folder}/snapshots/{files.read_whole(revision).decode().strip()}"
        if files.gfile.isdir(snapshot):
            return snapshot
    return None


def _in_kaggle(name: str) -> str | None:
    """KerasHub stores presets as <owner>/<model>/keras/<preset>/<version>."""
    cache = os.path.expanduser(os.environ.get("KAGGLEHUB_CACHE", "~/.cache/kagglehub"))
    owner, _, preset = name.rpartition("/")
    versions = files.gfile.glob(f"{cache}/models/{owner or '*'}/*/keras/{preset}/*")
    newest = sorted((v for v in versions if os.path.basename(v).isdecimal()), key=_version)
    return newest[-1] if newest else None


def _version(path: str) -> int:
    return int(os.path.basename(path))
