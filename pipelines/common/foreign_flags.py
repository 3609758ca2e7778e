"""Flags of google-research/bert, transformers and KerasHub, and ours of the same meaning."""

# Ours are those of different commands, of which each has at most one.
NAMES = {
    "bert_config_file": "model",
    "checkpoint_every": "save_every",
    "data_dir": "data",
    "do_lower_case": "lower_case",
    "do_whole_word_mask": "whole_word_mask",
    "fp16": "precision",
    "gradient_accumulation_steps": "accumulation",
    "gradient_checkpointing": "rematerialize",
    "init_checkpoint": "init model input",
    "input_file": "corpus tfrecords input",
    "layer": "layers",
    "max_length": "max_seq_length max_new_tokens",
    "max_steps": "steps",
    "model_name_or_path": "init model",
    "num_beams": "beams",
    "num_train_epochs": "epochs",
    "num_train_steps": "steps",
    "num_warmup_steps": "warmup_steps",
    "output_dir": "output",
    "output_file": "output",
    "predict_file": "test input",
    "random_seed": "seed seeds",
    "save_checkpoints_steps": "save_every",
    "save_steps": "save_every",
    "sequence_length": "max_seq_length",
    "task_name": "task",
    "train_batch_size": "batch_size",
    "train_file": "train",
    "vocab_file": "vocab",
    "warmup_proportion": "warmup_fraction",
}
# What other programs need to be told, and a command here does by itself.
ALWAYS = ("do_train", "do_eval", "do_predict")
