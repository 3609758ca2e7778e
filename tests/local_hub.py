"""A Hugging Face Hub on this machine, for tests: what `huggingface_hub` asks, from a folder."""

import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"


class LocalHub:
    """Repositories OWNER/NAME (models) and datasets/OWNER/NAME, each a folder in `root`.

    Attributes:
      asked: The paths that were asked for.
      break_after: How many bytes of a file are sent before the connection breaks; None: all.
    """

    def __init__(self, root: Path):
        self.root, self.asked, self.break_after = root, [], None
        self.private, self.gated = set(), set()

    @contextlib.contextmanager
    def served(self, monkeypatch, cache):
        """Serves the repositories as the Hub of this process, whose cache is another folder."""
        import huggingface_hub.constants as constants

        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setenv("HF_HUB_CACHE", str(cache))
        try:
            yield address
        finally:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: LocalHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Prints nothing."""

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, body):
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.asked.append(path)
        if path.startswith("api/"):
            kind, owner, name, what, revision, *_ = path.split("/")[1:]
            repository = f"{owner}/{name}" if kind == "models" else f"datasets/{owner}/{name}"
        else:
            repository, _, rest = path.partition("/resolve/")
            what, (revision, _, file) = "resolve", rest.partition("/")
        folder = self.hub.root / repository
        may = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if not folder.is_dir() or (repository in self.hub.private and not may):
            return self._refuse(404, "RepoNotFound")
        if repository in self.hub.gated and not may:
            return self._refuse(403, "GatedRepo")
        if revision not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        files = sorted(x.relative_to(folder).as_posix() for x in folder.rglob("*") if x.is_file())
        if what == "revision":
            return self._send(json.dumps({
                "id": repository, "sha": COMMIT, "siblings": [{"rfilename": x} for x in files],
            }).encode(), body)  # fmt: skip
        if what == "tree":
            return self._send(json.dumps([
                {"type": "file", "path": x, "oid": "0", "size": (folder / x).stat().st_size}
                for x in files
            ]).encode(), body)  # fmt: skip
        if file not in files:
            return self._refuse(404, "EntryNotFound")
        return self._send((folder / file).read_bytes(), body, of_file=True)

    def _refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, data, body, of_file=False):
        start = 0
        if "Range" in self.headers:
            start = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        if of_file:
            self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if body and of_file and self.hub.break_after is not None:
            self.wfile.write(data[start : start + self.hub.break_after])
            self.close_connection = True
        elif body:
            self.wfile.write(data[start:])
