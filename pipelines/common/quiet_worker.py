"""Imports TensorFlow quietly: what a process imports first that workers are forked from."""

from pipelines.common import quiet_start

quiet_start.import_silently()
