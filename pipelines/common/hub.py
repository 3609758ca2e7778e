"""Repositories of the Hugging Face Hub, by name: from the local cache, otherwise downloaded."""

import functools
import re
from typing import Any

from absl import logging

from pipelines.common import compressed
from pipelines.common.errors import InputError

# owner/name, perhaps with @revision: a branch, a tag or a commit.
_NAME = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+))?")
DATASETS = "hf://datasets/"
# Of data, all files that may be read.
_ENDINGS = ("parquet", "arrow", "jsonl", "ndjson", "json", "csv", "tsv", "txt", "xlsx")
_DATA = tuple(f"*.{kind}{packed}" for kind in _ENDINGS for packed in ("", *compressed.ENDINGS))


def is_name(text: str) -> bool:
    """Whether a text has the form owner/name, perhaps with @revision."""
    return _NAME.fullmatch(text) is not None


def dataset(path: str) -> str:
    """The folder of hf://datasets/owner/name, or of a folder in it.

    Raises:
      InputError: The form is another, or as for `snapshot`.
    """
    parts = path.removeprefix(DATASETS).rstrip("/").split("/")
    name, inner = "/".join(parts[:2]), "".join(f"/{part}" for part in parts[2:])
    if not is_name(name):
        raise InputError(f"{path}: write {DATASETS}OWNER/NAME, or OWNER/NAME/FOLDER.")
    patterns = tuple(f"{inner[1:]}/{pattern}" if inner else pattern for pattern in _DATA)
    folder = snapshot(name, "dataset", patterns) + inner
    logging.info("%s: read from %s.", path, folder)
    return folder


@functools.cache
def snapshot(name: str, kind: str, patterns: tuple[str, ...]) -> str:
    """The folder of a repository in the cache; files that it lacks are downloaded.

    An interrupted download is resumed. Without the Hub, what is in the cache counts.

    Args:
      name: As for `is_name`.
      kind: "model" or "dataset".
      patterns: Of the files to take.

    Raises:
      InputError: The repository or revision does not exist or is not open to this user, or the Hub
        cannot be reached and the cache does not have it.
    """
    from huggingface_hub import constants, errors, snapshot_download

    match = _NAME.fullmatch(name)
    assert match is not None
    hub = constants.ENDPOINT
    options: Any = {"repo_type": kind, "revision": match["revision"]}
    try:
        path = snapshot_download(match["repo"], allow_patterns=list(patterns), **options)
    except errors.GatedRepoError:
        raise InputError(
            f"{name}: its owner asks for consent; accept the terms at {hub}/{match['repo']}, and "
            "set HF_TOKEN to a token of yours."
        ) from None
    except errors.RepositoryNotFoundError:
        raise InputError(
            f"{name}: no such folder, and {hub} has no {kind} of this name that you may read; "
            "check the spelling, and for a private one set HF_TOKEN."
        ) from None
    except errors.RevisionNotFoundError:
        raise InputError(
            f"{name}: {match['repo']} has no revision {match['revision']}; see its branches and "
            f"tags at {hub}/{match['repo']}."
        ) from None
    except (OSError, errors.HTTPError) as error:
        raise InputError(
            f"{name}: no such folder; it is not in the cache of Hugging Face either, and {hub} "
            f"could not be asked ({type(error).__name__}). With a connection, run the same command "
            f"again; without one, copy the folder of the {kind} to this machine and name that."
        ) from None
    return path
