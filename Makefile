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
CONVERT_FLAGS ?=
# For `make export` and what follows it.
TASKS ?=
PRECISION ?= float32
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
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder

PYTHON ?= python3
VENV := .venv
# `exec`, so that a signal that make passes on arrives.
RUN := exec env TF_CPP_MIN_LOG_LEVEL=2 $(VENV)/bin/python
READY := $(VENV)/.ready
BUILTIN := $(TFRECORDS)/builtin_corpus.txt
TEXT := $(if $(CORPUS),$(CORPUS),$(BUILTIN))
PRETRAINED := $(if $(OUT),$(OUT),savedmodels/pretrained)
TASK_RECIPES := ner squad1 squad2 swag
RECIPE_OF_TASK := $(patsubst %,recipes/%.flags,$(filter $(TASK),$(TASK_RECIPES)))
VOCAB_FILE := $(if $(VOCAB),$(VOCAB),$(TFRECORDS)/learned_vocab.txt)

.DEFAULT_GOAL := help
.PHONY: help setup corpus vocab examples pretrain show finetune predict convert export export-hub export-portable serve test test-all bench lint format clean

help: ## List the targets and the variables
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: CORPUS='globs' (default: the built-in corpus), VOCAB=vocab.txt (default: learned),"
	@echo "  MODEL=tiny|mini|small|medium|base|large|bert_config.json, STEPS, SEED, OUT=$(PRETRAINED),"
	@echo "  TFRECORDS=$(TFRECORDS), RECIPE=$(RECIPE), HELD_OUT=$(HELD_OUT),"
	@echo "  TASK, DATA, INIT, SEEDS, EPOCHS, BATCH, LR (finetune); MODEL=folder, INPUT, KIND (predict);"
	@echo "  TASKS, PRECISION=float32|bfloat16 (export); FORMAT=bert_tf|tf1|huggingface, TASK, VOCAB"
	@echo "  (convert); VOCAB_FLAGS, EXAMPLE_FLAGS, TRAIN_FLAGS, TUNE_FLAGS, CONVERT_FLAGS (see --help"
	@echo "  of each step); PYTHON=python3.11, JOBS=$(JOBS) (test), BERT_CLONE, BENCH_FLAGS (bench)"

setup: $(READY) ## Make .venv with the pinned requirements

$(READY): requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

corpus: $(READY) ## Write the built-in corpus (unless CORPUS names one)
	$(if $(CORPUS),,$(RUN) -m pipelines.make_corpus --output=$(BUILTIN))

vocab: corpus ## Learn a WordPiece vocabulary (unless VOCAB names one)
	$(if $(VOCAB),,$(RUN) -m pipelines.learn_vocabulary --input='$(TEXT)' \
		--output=$(VOCAB_FILE) --seed=$(SEED) \
		$(if $(CORPUS),,--flagfile=recipes/vocabulary.flags) $(VOCAB_FLAGS))

examples: vocab ## Write masked sentence pairs as TFRecords
	$(RUN) -m pipelines.write_examples --input='$(TEXT)' --vocab='$(VOCAB_FILE)' \
		--output=$(TFRECORDS) --flagfile=recipes/examples.flags --held_out_fraction=$(HELD_OUT) \
		--seed=$(SEED) $(EXAMPLE_FLAGS)

pretrain: examples ## Do it all: corpus, vocabulary, TFRecords, training, SavedModel, report
	$(RUN) -m bert_tf.pretrain --flagfile=$(RECIPE) --tfrecords=$(TFRECORDS) --output=$(PRETRAINED) \
		--seed=$(SEED) $(if $(MODEL),--model=$(MODEL)) $(if $(STEPS),--steps=$(STEPS)) $(TRAIN_FLAGS)

finetune: $(READY) ## Fine-tune for a task: TASK=mrpc DATA=glue/MRPC INIT=model [SEEDS= EPOCHS= BATCH= LR=]
	$(RUN) -m bert_tf.finetune --task='$(TASK)' $(if $(RECIPE_OF_TASK),--flagfile=$(RECIPE_OF_TASK)) \
		$(if $(DATA),--data='$(DATA)') --init='$(INIT)' $(if $(OUT),--output='$(OUT)') \
		$(if $(SEEDS),--seeds=$(SEEDS)) $(if $(EPOCHS),--epochs=$(EPOCHS)) \
		$(if $(BATCH),--batch_size=$(BATCH)) $(if $(LR),--learning_rate=$(LR)) $(TUNE_FLAGS)

predict: $(READY) ## Predict for a file: MODEL=savedmodels/finetuned/mrpc INPUT=test.tsv
	$(RUN) -m bert_tf.predict --model='$(MODEL)' --input='$(INPUT)' \
		$(if $(TASK),--task='$(TASK)') $(if $(KIND),--kind=$(KIND)) \
		$(if $(OUT),--output='$(OUT)') $(TUNE_FLAGS)

convert: $(READY) ## Convert weights: INPUT=model OUT=folder FORMAT=bert_tf|tf1|huggingface
	$(RUN) -m bert_tf.convert --input='$(INPUT)' --output='$(OUT)' --format=$(FORMAT) \
		$(if $(TASK),--task='$(TASK)') $(if $(VOCAB),--vocab='$(VOCAB)') $(CONVERT_FLAGS)

comma := ,
TASK_LIST := $(subst $(eval ) ,$(comma),$(strip $(TASKS)))

export: $(READY) ## Export a SavedModel: TASKS="mrpc squad2=folder pretrained" [PRECISION=bfloat16]
	$(RUN) -m bert_tf.export --tasks='$(TASK_LIST)' $(if $(OUT),--output='$(OUT)') \
		--precision=$(PRECISION)

export-hub: $(READY) ## Export the TF Hub pair of encoder and preprocessor: MODEL=savedmodels/pretrained
	$(RUN) -m bert_tf.export_hub $(if $(MODEL),--model='$(MODEL)') $(if $(OUT),--output='$(OUT)')

export-portable: $(READY) ## Export for LiteRT and ONNX: TASKS="mrpc pos"
	$(RUN) -m bert_tf.export_portable --tasks='$(TASK_LIST)' $(if $(OUT),--output='$(OUT)')

serve: $(READY) ## Serve an export with TensorFlow Serving: MODEL=savedmodels/bert
	$(RUN) -m bert_tf.serve $(if $(MODEL),--model='$(MODEL)')

show: $(READY) ## Print a few examples: tokens, masks and originals, segments, label
	$(RUN) -m pipelines.show_examples --tfrecords=$(TFRECORDS)

test: $(READY) ## Run the tests
	$(VENV)/bin/python -m pytest -m "not slow" $(PARALLEL)

test-all: $(READY) $(PEERS)/.ready ## Run the tests, slow ones too (with the peers as reference)
	PEER_PYTHON=$(abspath $(PEERS)/bin/python) $(VENV)/bin/python -m pytest $(PARALLEL)

bench: $(READY) $(PEERS)/.ready ## Measure side by side with peers (BERT_CLONE=, BENCH_FLAGS=)
	$(RUN) -m benchmarks.run --peer_python=$(PEERS)/bin/python --bert_clone=$(BERT_CLONE) $(BENCH_FLAGS)

$(PEERS)/.ready: benchmarks/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

lint: $(READY) ## Check style and format
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .

format: $(READY) ## Format the code
	$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

clean: ## Remove TFRECORDS, cached examples and the pre-trained model in OUT (nothing else)
	rm -rf $(TFRECORDS) $(PRETRAINED) tfrecords/finetuning
