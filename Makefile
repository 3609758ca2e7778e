# bert-tf: raw text in, a pre-trained and fine-tuned BERT out. `make help` lists what there is.

CORPUS ?=
VOCAB ?=
MODEL ?=
STEPS ?=
SEED ?= 12345
OUT ?=
# For `make finetune`, `make predict` and `make convert`.
TASK ?=
DATA ?=
INIT ?=
SEEDS ?=
EPOCHS ?=
BATCH ?=
LR ?=
INPUT ?=
FORMAT ?= bert_tf
KIND ?=
TUNE_FLAGS ?=
EMBED_FLAGS ?=
CONVERT_FLAGS ?=
# For `make export` and what follows it.
TASKS ?=
PRECISION ?= float32
# Some shells have a HOST of their own: only what is said to make counts.
ifneq ($(origin HOST),command line)
override HOST := 127.0.0.1
endif
TFRECORDS ?= tfrecords/pretraining
RECIPE ?= recipes/builtin.flags
HELD_OUT ?= 0.02
# More flags for the step in question, such as EXAMPLE_FLAGS='--whole_word_mask'.
VOCAB_FLAGS ?=
EXAMPLE_FLAGS ?=
TRAIN_FLAGS ?=

# For `make bench`: a clone of google-research/bert, and an environment for the peers.
BERT_CLONE ?=
BENCH_FLAGS ?=
PEERS ?= .venv-peers

# Test files that run at once; each may take 2 GiB.
JOBS ?= 2

PYTHON ?= python3
VENV ?= .venv

# What the user says reaches the commands through the environment, as it is: make would expand its
# dollars, the shell its quotes, blanks and semicolons. So recipes write "$$OUT", never $(OUT).
VARIABLES := CORPUS VOCAB MODEL STEPS SEED OUT TASK DATA INIT SEEDS EPOCHS BATCH LR INPUT FORMAT \
	KIND TUNE_FLAGS EMBED_FLAGS CONVERT_FLAGS TASKS PRECISION HOST TFRECORDS RECIPE HELD_OUT \
	VOCAB_FLAGS EXAMPLE_FLAGS TRAIN_FLAGS BERT_CLONE BENCH_FLAGS PEERS JOBS PYTHON VENV
$(foreach name,$(VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(VARIABLES)

# `set -x` shows what is run; `exec`, so that a signal that make passes on arrives.
RUN := set -x; exec env TF_CPP_MIN_LOG_LEVEL=2 "$$VENV/bin/python"
PYTEST := "$$VENV/bin/python" -m pytest -n "$$JOBS" --dist loadfile --no-loadscope-reorder
# A flag for each variable that is set; $(call flag,--output,OUT).
flag = $${$2:+"$1=$$$2"}
# The text to train on, the vocabulary, and where the model goes.
TEXT := $${CORPUS:-$$TFRECORDS/builtin_corpus.txt}
VOCAB_FILE := $${VOCAB:-$$TFRECORDS/learned_vocab.txt}
PRETRAINED := $${OUT:-savedmodels/pretrained}

.DEFAULT_GOAL := help
.PHONY: help setup peers corpus vocab examples pretrain show finetune predict embed convert \
	export export-hub export-portable serve test test-all bench docs smoke lint format clean

help: ## List the targets and the variables
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "Variables: CORPUS='globs' (default: the built-in corpus), VOCAB=vocab.txt (default: learned),"
	@echo "  MODEL=tiny|mini|small|medium|base|large|bert_config.json, STEPS, SEED,"
	@echo "  OUT=savedmodels/pretrained, TFRECORDS=tfrecords/pretraining,"
	@echo "  RECIPE=recipes/builtin.flags, HELD_OUT=0.02,"
	@echo "  TASK, DATA, INIT, SEEDS, EPOCHS, BATCH, LR (finetune); MODEL=folder, INPUT, KIND (predict);"
	@echo "  MODEL=folder, INPUT, OUT=file (embed);"
	@echo "  TASKS, PRECISION=float32|bfloat16 (export); FORMAT=bert_tf|tf1|huggingface, TASK, VOCAB"
	@echo "  (convert); HOST=127.0.0.1 (serve); VOCAB_FLAGS, EXAMPLE_FLAGS, TRAIN_FLAGS, TUNE_FLAGS,"
	@echo "  EMBED_FLAGS, CONVERT_FLAGS (see --help of each step; blanks within a flag between quotes);"
	@echo "  PYTHON=python3.11, JOBS=2 (test), BERT_CLONE, BENCH_FLAGS (bench)"

setup: ## Make .venv with the pinned requirements
	@if [ ! -e "$$VENV/.ready" ] || [ requirements.txt -nt "$$VENV/.ready" ]; then \
		"$$PYTHON" -m venv "$$VENV" && \
		"$$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
			-r requirements.txt && \
		"$$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
			--no-deps --editable . && touch "$$VENV/.ready"; fi

peers:
	@if [ ! -e "$$PEERS/.ready" ] || [ benchmarks/requirements.txt -nt "$$PEERS/.ready" ]; then \
		"$$PYTHON" -m venv "$$PEERS" && \
		"$$PEERS/bin/python" -m pip install --quiet --disable-pip-version-check \
			-r benchmarks/requirements.txt && touch "$$PEERS/.ready"; fi

corpus: setup ## Write the built-in corpus (unless CORPUS names one)
	@if [ -z "$$CORPUS" ]; then \
		$(RUN) -m bert_tf make-corpus --output="$(TEXT)"; fi

vocab: corpus ## Learn a WordPiece vocabulary (unless VOCAB names one)
	@if [ -z "$$VOCAB" ]; then \
		$(RUN) -m bert_tf learn-vocabulary --input="$(TEXT)" --output="$(VOCAB_FILE)" \
			--seed="$$SEED" $$([ -n "$$CORPUS" ] || echo --flagfile=recipes/vocabulary.flags) \
			$(call flag,--more_flags,VOCAB_FLAGS); fi

examples: vocab ## Write masked sentence pairs as TFRecords
	@$(RUN) -m bert_tf write-examples --input="$(TEXT)" --vocab="$(VOCAB_FILE)" \
		--output="$$TFRECORDS" --flagfile=recipes/examples.flags \
		--held_out_fraction="$$HELD_OUT" --seed="$$SEED" $(call flag,--more_flags,EXAMPLE_FLAGS)

pretrain: examples ## Do it all: corpus, vocabulary, TFRecords, training, SavedModel, report
	@$(RUN) -m bert_tf pretrain --flagfile="$$RECIPE" --tfrecords="$$TFRECORDS" \
		--output="$(PRETRAINED)" --seed="$$SEED" $(call flag,--model,MODEL) \
		$(call flag,--steps,STEPS) $(call flag,--more_flags,TRAIN_FLAGS)

finetune: setup ## Fine-tune for a task: TASK=mrpc DATA=glue/MRPC INIT=model [SEEDS= EPOCHS= BATCH= LR=]
	@recipe=; for task in ner squad1 squad2 swag; do \
		[ "$$TASK" != $$task ] || recipe=--flagfile=recipes/$$task.flags; done; \
	$(RUN) -m bert_tf finetune --task="$$TASK" $$recipe --init="$$INIT" $(call flag,--data,DATA) \
		$(call flag,--output,OUT) $(call flag,--seeds,SEEDS) $(call flag,--epochs,EPOCHS) \
		$(call flag,--batch_size,BATCH) $(call flag,--learning_rate,LR) \
		$(call flag,--more_flags,TUNE_FLAGS)

predict: setup ## Predict for a file: MODEL=savedmodels/finetuned/mrpc INPUT=test.tsv
	@$(RUN) -m bert_tf predict --model="$$MODEL" --input="$$INPUT" $(call flag,--task,TASK) \
		$(call flag,--kind,KIND) $(call flag,--output,OUT) $(call flag,--more_flags,TUNE_FLAGS)

embed: setup ## Write vectors of texts: MODEL=savedmodels/pretrained INPUT=texts.txt OUT=vectors.npy
	@$(RUN) -m bert_tf embed --model="$$MODEL" --input="$$INPUT" $(call flag,--output,OUT) \
		$(call flag,--more_flags,EMBED_FLAGS)

convert: setup ## Convert weights: INPUT=model OUT=folder FORMAT=bert_tf|tf1|huggingface
	@$(RUN) -m bert_tf convert --input="$$INPUT" --format="$$FORMAT" $(call flag,--output,OUT) \
		$(call flag,--task,TASK) $(call flag,--vocab,VOCAB) $(call flag,--more_flags,CONVERT_FLAGS)

export: setup ## Export a SavedModel: TASKS="mrpc squad2=folder pretrained" [PRECISION=bfloat16]
	@$(RUN) -m bert_tf export --tasks="$$TASKS" $(call flag,--output,OUT) --precision="$$PRECISION"

export-hub: setup ## Export the TF Hub pair of encoder and preprocessor: MODEL=savedmodels/pretrained
	@$(RUN) -m bert_tf export-hub $(call flag,--model,MODEL) $(call flag,--output,OUT)

export-portable: setup ## Export for LiteRT and ONNX: TASKS="mrpc pos"
	@$(RUN) -m bert_tf export-portable --tasks="$$TASKS" $(call flag,--output,OUT)

serve: setup ## Serve an export to this machine, with TensorFlow Serving: MODEL=savedmodels/bert [HOST=]
	@$(RUN) -m bert_tf serve $(call flag,--model,MODEL) --host="$$HOST"

show: setup ## Print a few examples: tokens, masks and originals, segments, label
	@$(RUN) -m bert_tf show-examples --tfrecords="$$TFRECORDS"

test: setup ## Run the tests
	$(PYTEST) -m "not slow"

test-all: setup peers ## Run the tests, slow ones too (with the peers as reference)
	PEER_PYTHON="$$(cd "$$PEERS/bin" && pwd)/python" $(PYTEST)

bench: setup peers ## Measure side by side with peers (BERT_CLONE=, BENCH_FLAGS=)
	@$(RUN) -m benchmarks.run --peer_python="$$PEERS/bin/python" --bert_clone="$$BERT_CLONE" \
		$(call flag,--more_flags,BENCH_FLAGS)

docs: ## Build the documentation: build/docs/index.html
	@if [ ! -e "$$VENV-docs/.ready" ] || [ docs/requirements.txt -nt "$$VENV-docs/.ready" ]; then \
		"$$PYTHON" -m venv "$$VENV-docs" && \
		"$$VENV-docs/bin/python" -m pip install --quiet --disable-pip-version-check \
			-r docs/requirements.txt && touch "$$VENV-docs/.ready"; fi
	"$$VENV-docs/bin/sphinx-build" -W --keep-going -q -b html docs build/docs

smoke: setup ## Go through everything in a minute, with a model of debug size
	@$(RUN) -m tests.smoke

lint: setup ## Check style, format, directions of imports, and types
	"$$VENV/bin/ruff" check . && "$$VENV/bin/ruff" format --check .
	"$$VENV/bin/lint-imports" --no-cache
	"$$VENV/bin/python" -m mypy

format: setup ## Format the code
	"$$VENV/bin/ruff" format . && "$$VENV/bin/ruff" check --fix .

clean: setup ## Remove the examples in TFRECORDS, cached ones, and the pre-trained model in OUT
	@$(RUN) -m bert_tf clean --tfrecords="$$TFRECORDS" --output="$(PRETRAINED)"
