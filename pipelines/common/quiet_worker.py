"""Imports TensorFlow quietly: the first import of the server that workers are forked from."""

from pipelines.common import quiet_start

quiet_start.import_silently()
