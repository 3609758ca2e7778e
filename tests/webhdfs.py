"""A server with the web interface of HDFS, over a local folder: namenode and datanode in one."""

import contextlib
import json
import os
import shutil
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_ROOT = "/webhdfs/v1"
_DATA = "/data"  # where the namenode sends those who read and write


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # answers of two packets would wait for acknowledgements

    def _answer(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        root, op = (_DATA if parts.path.startswith(_DATA) else _ROOT), query["op"]
        name = urllib.parse.unquote(parts.path.removeprefix(root))
        local = f"{self.server.folder}{name}"
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if ":" in name or "//" in name:  # as Hadoop refuses them
            return self._error("IllegalArgumentException", f"Invalid file name: {name}", 400)
        if op in ("OPEN", "CREATE", "APPEND") and root == _ROOT:
            if op != "CREATE" and not os.path.isfile(local):
                return self._missing(name)
            host, port = self.server.server_address
            place = f"http://{host}:{port}{_DATA}{parts.path.removeprefix(_ROOT)}?{parts.query}"
            return self._reply(307, b"", Location=place)
        with self.server.one_at_a_time:  # as a namenode does
            return getattr(self, f"_{op.lower()}")(local, name, query, body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815  # as http.server wants them

    def _getfilestatus(self, local, name, query, body):
        if not os.path.exists(local):
            return self._missing(name)
        return self._tell({"FileStatus": _status(local, "")})

    def _liststatus(self, local, name, query, body):
        if not os.path.exists(local):
            return self._missing(name)
        found = [_status(f"{local}/{entry}", entry) for entry in os.listdir(local)]
        return self._tell({"FileStatuses": {"FileStatus": found}})

    def _open(self, local, name, query, body):
        if self.server.failing:
            return self._reply(500, b"<html>no datanode</html>")
        with open(local, "rb") as file:
            file.seek(int(query.get("offset", 0)))
            return self._reply(200, file.read(int(query.get("length", -1))))

    def _create(self, local, name, query, body):
        os.makedirs(os.path.dirname(local), exist_ok=True)
        with open(local, "wb") as file:
            file.write(body)
        return self._reply(201, b"")

    def _append(self, local, name, query, body):
        with open(local, "ab") as file:
            file.write(body)
        return self._reply(200, b"")

    def _mkdirs(self, local, name, query, body):
        os.makedirs(local, exist_ok=True)
        return self._tell({"boolean": True})

    def _rename(self, local, name, query, body):
        target = f"{self.server.folder}{query['destination']}"
        possible = os.path.exists(local) and os.path.isdir(os.path.dirname(target))
        if renamed := possible and not os.path.exists(target):
            os.rename(local, target)
        return self._tell({"boolean": renamed})

    def _delete(self, local, name, query, body):
        if os.path.isdir(local):
            shutil.rmtree(local)
        elif os.path.exists(local):
            os.remove(local)
        return self._tell({"boolean": True})

    def _missing(self, name):
        return self._error("FileNotFoundException", f"File does not exist: {name}", 404)

    def _error(self, kind, message, status):
        return self._tell({"RemoteException": {"exception": kind, "message": message}}, status)

    def _tell(self, values, status=200):
        self._reply(status, json.dumps(values).encode())

    def _reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Says nothing."""


def _status(local, name):
    kind = "DIRECTORY" if os.path.isdir(local) else "FILE"
    length = 0 if kind == "DIRECTORY" else os.path.getsize(local)
    return {"pathSuffix": name, "type": kind, "length": length}


@contextlib.contextmanager
def serving(folder, failing=False):
    """Yields the path of a local folder on a server that runs for the time of the block.

    Args:
      folder: the local one.
      failing: whether its datanode answers nothing but a page of an error.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.folder, server.failing, server.daemon_threads = str(folder), failing, True
    server.one_at_a_time = threading.Lock()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"webhdfs://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
