"""The page on a server that runs an export: TensorFlow Serving's REST, as far as the page asks."""

import contextlib
import http.server
import json
import threading

from bert_tf.serving.demo import page
from tests.bert_tf.serving import endpoint

STATES = {"model_version_status": [{"version": "3", "state": "AVAILABLE", "status": {}}]}


@contextlib.contextmanager
def serve(predictor, token=None):
    """Yields the address of the page.

    Args:
      predictor: answers.
      token: that requests must have; None: none.
    """
    text = page.render(predictor.manifest, "bert")

    class Handler(endpoint.rest_handler(predictor)):
        def do_GET(self):  # noqa: N802
            if self.path == "/":
                return self._say(200, "text/html; charset=utf-8", text)
            if not self._may():
                return self._refuse()
            return self._say(200, "application/json", json.dumps(STATES))

        def do_POST(self):  # noqa: N802
            if not self._may():
                self.rfile.read(int(self.headers["Content-Length"]))
                return self._refuse()
            return super().do_POST()

        def _may(self):
            return token is None or self.headers["Authorization"] == f"Bearer {token}"

        def _refuse(self):
            self._say(401, "application/json", json.dumps({"error": "a token, please"}))

        def _say(self, status, kind, said):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(said.encode())

    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
