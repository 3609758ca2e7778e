"""One of several workers, as far as the watch can see, that hangs after a step; run by a test."""

import sys
import time

import tensorflow as tf

from bert_tf.training import distribution, lost_workers

distribution.has_several_workers = lambda strategy: True
with lost_workers.watchdog(tf.distribute.get_strategy(), float(sys.argv[1])) as watch:
    watch.step_ended()
    time.sleep(60)
