"""What the server is made of: packages that come with an extra."""

from pipelines.common import optional

_MODULES = ("uvicorn", "starlette", "prometheus_client", "tensorflow_serving")


def check() -> None:
    """Raises InputError where one is missing."""
    for module in _MODULES:
        optional.load(module, "serving")
