"""Raw text in, TFRecords of training examples out, and back as tf.data batches."""
