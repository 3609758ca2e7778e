"""Counts of requests, for Prometheus."""

from collections.abc import Callable

import prometheus_client as prometheus

UNKNOWN = "unknown"  # the signature of a request before it is parsed
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds


class Metrics:
    """Counts of requests by signature, for Prometheus; `waiting` counts waiting sequences."""

    def __init__(self, waiting: Callable[[], int]):
        self._registry = prometheus.CollectorRegistry()
        self.answered = prometheus.Histogram(
            "bert_tf_request_seconds",
            "Time of requests that were answered.",
            ["signature"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.refused = prometheus.Counter(
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

    def text(self) -> bytes:
        """All counts, in Prometheus' format."""
        return prometheus.generate_latest(self._registry)
