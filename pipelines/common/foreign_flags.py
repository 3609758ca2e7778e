"""Flags of google-research/bert, transformers and KerasHub, and ours of the same meaning."""

# Ours are those of different commands, of which each has at most one.
NAMES = {
    "bert_config_file": "model",
    "bf16": "precision",
    "checkpoint_every": "save_every",
    "data_dir": "data",
    "do_lower_case": "lower_case",
    "do_whole_word_mask": "whole_word_mask",
    "early_stopping_patience": "patience",
    "eval_steps": "evaluate_every",
    "fp16": "precision",
    "gradient_accumulation_steps": "accumulation",
    "gradient_checkpointing": "rematerialize",
    "init_checkpoint": "init model input",
    "input_file": "corpus tfrecords input",
    "iterations_per_loop": "steps_per_execution",
    "layer": "layers",
    "logging_steps": "log_every",
    "max_grad_norm": "clip_norm",
    "max_length": "max_seq_length max_new_tokens",
    "max_steps": "steps",
    "mlm_probability": "masked_lm_prob",
    "model_name_or_path": "init model",
    "num_beams": "beams",
    "num_train_epochs": "epochs",
    "num_train_steps": "steps",
    "num_warmup_steps": "warmup_steps",
    "output_dir": "output",
    "output_file": "output",
    "per_device_train_batch_size": "batch_size",
    "predict_file": "dev input",
    "random_seed": "seed seeds",
    "save_checkpoints_steps": "save_every",
    "save_steps": "save_every",
    "sequence_length": "max_seq_length",
    "task_name": "task",
    "train_batch_size": "batch_size",
    "train_file": "train",
    "validation_file": "dev",
    "version_2_with_negative": "task",
    "vocab_file": "vocab",
    "warmup_proportion": "warmup_fraction",
    "warmup_ratio": "warmup_fraction",
}
# How ours differs.
DIFFERENCES = {
    "gradient_accumulation_steps": "which splits --batch_size instead of multiplying it",
    "per_device_train_batch_size": "which is that of all devices",
}
# What other programs need to be told, and a command here does by itself.
ALWAYS = ("do_train", "do_eval", "do_predict", "load_best_model_at_end")
