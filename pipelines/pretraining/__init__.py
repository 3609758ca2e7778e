"""Ids to pre-training examples: token store, segments, masking, TFRecords, and their reader."""
