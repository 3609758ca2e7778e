"""What a server counts, for Prometheus."""

from collections.abc import Callable

import prometheus_client as prometheus

from bert_tf.serving.server.faults import Fault

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Counts of requests, by signature.

    Args:
      waiting: tells how many sequences wait to be computed.
    """

    def __init__(self, waiting: Callable[[], int]):
        self._registry = prometheus.CollectorRegistry()
        self._answered = prometheus.Histogram(
            "bert_tf_request_seconds",
            "Time of requests that were answered.",
            ["signature"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._refused = prometheus.Counter(
            "bert_tf_refused_requests",
            "Requests that were not answered, by the reason.",
            ["signature", "reason"],
            registry=self._registry,
        )
        prometheus.Gauge(
            "bert_tf_waiting_sequences",
            "Sequences that wait to be computed.",
            registry=self._registry,
        ).set_function(waiting)

    def answered(self, signature: str, seconds: float) -> None:
        """Counts a request that was answered."""
        self._answered.labels(signature).observe(seconds)

    def refused(self, signature: str, fault: Fault) -> None:
        """Counts a request that was not."""
        self._refused.labels(signature, fault.name.lower()).inc()

    def text(self) -> bytes:
        """All counts, in Prometheus' format."""
        return prometheus.generate_latest(self._registry)
