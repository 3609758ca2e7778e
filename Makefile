# bert-tf: raw text in, a pre-trained and fine-tuned BERT out. `make help` lists what there is.

.DEFAULT_GOAL := help

# The variables: what each is for stands above it, and is printed by `make help`.
## Text to train on, files or globs; not given: the built-in corpus
CORPUS ?=
## A vocab.txt, or a folder with a vocabulary; not given: learned; of convert, the model's
VOCAB ?=
## A size, such as tiny, base or roberta-base, or a bert_config.json (pretrain); a model's folder
MODEL ?=
## Steps of pre-training; not given: as the recipe says
STEPS ?=
## Seed of the vocabulary, of examples and of pre-training; of soak, of all cases
SEED ?= 12345
## Where the result goes; not given: the default of --output of the command
OUT ?=
## A task, such as mrpc, squad2 or classification, or NAME=TASK; or which one of a model
TASK ?=
## Folder of the data of the task, or a file
DATA ?=
## The model to start from, in any format
INIT ?=
## Seeds of fine-tuning, such as 1,2,3: a run for each
SEEDS ?=
## Passes over the training data
EPOCHS ?=
## Examples of a step
BATCH ?=
## Learning rate, or several to choose from on dev
LR ?=
## A file of examples to predict for, of texts to embed, of texts or words, or a model to convert
INPUT ?=
## Format to write: bert_tf, tf1 or huggingface
FORMAT ?= bert_tf
## What the file of examples is, where the model does not say so, such as ax or pair
KIND ?=
## Tasks to export (names, NAME=FOLDER, pretrained) or of experiments (KIND=PATH); not given: all
TASKS ?=
## What an export is computed with: float32, bfloat16 or int8
PRECISION ?= float32
## Labelled files on which less than float32 keeps the scores: TASK=FILE each
DEV ?=
## Address that the server listens on; 0.0.0.0: all that can reach this machine
HOST := 127.0.0.1# not from the environment: some shells have a HOST of their own
## More flags of serve, such as --docker or --engine=onnxruntime
SERVE_FLAGS ?=
# The built-in recipe is fitted to the machine; what is said of steps counts as it is.
ifeq ($(or $(value STEPS),$(value INIT),$(value RECIPE)),)
MINUTES ?= 4
endif
## Minutes of training, to which steps are fitted, or of soak; not given: 4 (built-in), 60
MINUTES ?=
# A model that is there goes on from its weights, in folders of its own.
ifdef INIT
TFRECORDS ?= tfrecords/adapted
RECIPE ?= recipes/adaptation.flags
endif
## Folder of the examples
TFRECORDS ?= tfrecords/pretraining
## File of flags of pre-training
RECIPE ?= recipes/builtin.flags
## Share of the documents that is kept apart for evaluation
HELD_OUT ?= 0.02
## More flags of learn-vocabulary, such as '--vocab_size=30000 --lower_case=false'
VOCAB_FLAGS ?=
## More flags of write-examples; blanks within a flag stand between quotes
EXAMPLE_FLAGS ?=
## More flags of pretrain
TRAIN_FLAGS ?=
## More flags of finetune, or of predict
TUNE_FLAGS ?=
## More flags of embed
EMBED_FLAGS ?=
## More flags of features
FEATURE_FLAGS ?=
## Who makes vocabulary and examples: local (this machine) or beam (Apache Beam)
RUNNER ?= local
## Options of Beam's pipeline, such as '--runner=FlinkRunner --flink_master=host:8081'
PIPELINE ?=
## A text that a model is to read; not given: its run of pre-training is looked at
SENTENCE ?=
## The second text of a pair, or the context of a question
SECOND ?=
## More flags of look
LOOK_FLAGS ?=
## More flags of convert
CONVERT_FLAGS ?=
## Time that the experiments may take, such as 10m, 8h or 2d
BUDGET ?= 8h
## Studies of the experiments, such as masking,features; not given: all
ONLY ?=
## More flags of experiments
EXPERIMENT_FLAGS ?=
## A clone of google-research/bert, for the benchmarks
BERT_CLONE ?=
## More flags of the benchmarks
BENCH_FLAGS ?=
## More flags of soak, such as --only=kills or --case=kills:12
SOAK_FLAGS ?=
## The environment of the peers
PEERS ?= .venv-peers
## The environment of Apache Beam
BEAM ?= .venv-beam
## Test files that run at once; each may take 2 GiB
JOBS ?= 2
## Python 3.11, which makes the environment
PYTHON ?= python3
## The environment
VENV ?= .venv

TARGETS := help setup peers beam corpus vocab examples tfrecords pretrain show finetune predict embed \
	features look convert experiments export export-hub export-portable serve test test-all bench \
	soak docs smoke lint format clean
.PHONY: $(TARGETS)
# The variables that each target uses; all of them use ALWAYS.
ALWAYS := PYTHON VENV
USES_peers := PEERS
USES_beam := BEAM
USES_corpus := CORPUS TFRECORDS
USES_vocab := $(USES_corpus) VOCAB INIT SEED RUNNER PIPELINE BEAM VOCAB_FLAGS
USES_examples := $(USES_vocab) HELD_OUT EXAMPLE_FLAGS
USES_tfrecords := $(USES_examples)
USES_pretrain := $(USES_examples) MODEL STEPS MINUTES RECIPE OUT TRAIN_FLAGS
USES_show := TFRECORDS
USES_finetune := TASK DATA INIT OUT SEEDS EPOCHS BATCH LR TUNE_FLAGS
USES_predict := MODEL INPUT TASK KIND OUT TUNE_FLAGS
USES_embed := MODEL INPUT OUT EMBED_FLAGS
USES_features := MODEL INPUT OUT FEATURE_FLAGS
USES_look := MODEL SENTENCE SECOND OUT LOOK_FLAGS
USES_convert := INPUT OUT FORMAT TASK VOCAB CONVERT_FLAGS
USES_experiments := $(USES_corpus) TASKS BUDGET ONLY SEEDS VOCAB OUT EXPERIMENT_FLAGS
USES_export := TASKS OUT PRECISION DEV
USES_export-hub := MODEL OUT
USES_export-portable := TASKS OUT
USES_serve := MODEL HOST SERVE_FLAGS
USES_test := JOBS
USES_test-all := JOBS PEERS BEAM
USES_bench := PEERS BERT_CLONE BENCH_FLAGS
USES_soak := MINUTES SEED SOAK_FLAGS
USES_clean := TFRECORDS OUT
VARIABLES := $(sort $(ALWAYS) $(foreach target,$(TARGETS),$(USES_$(target))))

# A variable that is given and not used would do nothing: it is an error. Not meant are those of
# make itself, and what another make above this one was given.
GOALS := $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))
GIVEN := $(foreach name,$(filter-out MAKE% SHELL .% -%,$(.VARIABLES)),$(if \
	$(findstring command line,$(origin $(name))),$(name)))
USED := $(sort $(foreach goal,$(GOALS),$(USES_$(goal))))
UNUSED := $(firstword $(filter-out $(ALWAYS) $(USED),$(GIVEN)))
USERS := $(strip $(foreach target,$(TARGETS),$(if $(filter $(UNUSED),$(USES_$(target))),$(target))))
ifeq ($(MAKELEVEL)$(filter-out $(TARGETS),$(GOALS)),0)
ifneq ($(UNUSED),)
REMEDY := $(if $(USERS),it is for make $(USERS),what is for the environment stands before make)
$(error $(UNUSED) is not used by make $(GOALS), which takes $(or $(USED),no variables); $(REMEDY))
endif
endif

# What the user says reaches the commands through the environment, as it is: make would expand its
# dollars, the shell its quotes, blanks and semicolons. So recipes write "$$OUT", never $(OUT).
$(foreach name,$(VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(VARIABLES)

# `set -x` shows what is run; `exec`, so that a signal that make passes on arrives.
RUN := set -x; exec env TF_CPP_MIN_LOG_LEVEL=2 "$$VENV/bin/python"
# The same in the environment of who writes the examples.
RUN_THERE := [ "$$RUNNER" != beam ] || VENV="$$BEAM"; $(RUN)
PYTEST := "$$VENV/bin/python" -m pytest -n "$$JOBS" --dist loadfile --no-loadscope-reorder
INSTALL := -m pip install --quiet --disable-pip-version-check
# Makes an environment unless it is there; $(call environment,FOLDER,REQUIREMENTS[,with bert-tf]).
environment = @if [ ! -e "$1/.ready" ] || [ $2 -nt "$1/.ready" ]; then \
		"$$PYTHON" -m venv "$1" && "$1/bin/python" $(INSTALL) -r $2 \
		$(if $3,&& "$1/bin/python" $(INSTALL) --no-deps --editable .) && touch "$1/.ready"; fi
# A flag for each variable that is set; $(call flag,--output,OUT).
flag = $${$2:+"$1=$$$2"}
# The text to train on, the vocabulary, and where the model goes.
TEXT := $${CORPUS:-$$TFRECORDS/builtin_corpus.txt}
OWN_VOCAB := $$TFRECORDS/$(if $(value INIT),tokenizer,learned_vocab.txt)
VOCAB_FILE := $${VOCAB:-$(OWN_VOCAB)}
PRETRAINED := $${OUT:-savedmodels/$(if $(value INIT),adapted,pretrained)}
EXAMPLE_RECIPE := recipes/$(if $(value INIT),adaptation_examples,examples).flags

# Prints each target and the variables that it uses (`uses` is TARGET:NAMES;...), then those.
define HELP
BEGIN {
  count = split(uses, entries, /; ?/)
  for (i = 1; i < count; i++) { split(entries[i], pair, ":"); of[pair[1]] = pair[2] }
}
/^## / { about = substr($$0, 4); next }
/^[A-Z_]+ [?:]= ?/ && about {
  sub(/#.*/, "", $$3)
  variables = variables sprintf("  %-13s %s\n", $$1, about ($$3 == "" ? "" : " (" $$3 ")"))
}
{ about = "" }
/^[a-z-]+:.*## / {
  target = $$1; sub(/:/, "", target); sub(/.*## /, "")
  printf "  make %-15s %s\n", target, $$0
  count = split(of[target], names, " ")
  for (i = 1; i <= count; i++) {
    printf "%s%s", (width == 0 ? sprintf("%23s", "") : " "), names[i]
    width += length(names[i]) + 1
    if (width > 60 || i == count) { printf "\n"; width = 0 }
  }
}
END { printf "\nVariables, as NAME=value:\n\n%s", variables }
endef

help: export HELP := $(HELP)
help: ## List the targets and the variables
	@awk -v uses='$(foreach target,$(TARGETS),$(target):$(USES_$(target));)' "$$HELP" Makefile

setup: ## Make .venv with the pinned requirements
	$(call environment,$$VENV,requirements.txt,with bert-tf)

peers:
	$(call environment,$$PEERS,benchmarks/requirements.txt)

beam:
	$(call environment,$$BEAM,requirements-beam.txt,with bert-tf)

corpus: setup ## Write the built-in corpus (unless CORPUS names one)
	@if [ -z "$$CORPUS" ]; then \
		$(RUN) -m bert_tf make-corpus --output="$(TEXT)"; fi

ifeq ($(value RUNNER),beam)
vocab: beam
endif

vocab: corpus ## Learn a WordPiece vocabulary (unless VOCAB names one, or INIT a model)
	@if [ -n "$$INIT" ]; then \
		$(RUN) -m bert_tf convert --input="$$INIT" --output="$(OWN_VOCAB)" --tokenizer_only; fi
	@if [ -z "$$VOCAB$$INIT" ]; then \
		recipe=$$([ -n "$$CORPUS" ] || echo --flagfile=recipes/vocabulary.flags); \
		$(RUN_THERE) -m bert_tf learn-vocabulary --input="$(TEXT)" --output="$(VOCAB_FILE)" \
			--runner="$$RUNNER" $(call flag,--pipeline,PIPELINE) \
			--seed="$$SEED" $$recipe \
			$(call flag,--more_flags,VOCAB_FLAGS); fi

examples: vocab ## Write masked sentence pairs as TFRecords
	@$(RUN_THERE) -m bert_tf write-examples --input="$(TEXT)" --vocab="$(VOCAB_FILE)" \
		--runner="$$RUNNER" $(call flag,--pipeline,PIPELINE) \
		--output="$$TFRECORDS" --flagfile=$(EXAMPLE_RECIPE) \
		--held_out_fraction="$$HELD_OUT" --seed="$$SEED" $(call flag,--more_flags,EXAMPLE_FLAGS)

tfrecords: examples ## The same, here or on a cluster: RUNNER=local|beam CORPUS= VOCAB= [PIPELINE='--...']

pretrain: examples ## Do it all: corpus, vocabulary, TFRecords, training, SavedModel, report [INIT=model]
	@$(RUN) -m bert_tf pretrain --flagfile="$$RECIPE" --tfrecords="$$TFRECORDS" \
		--output="$(PRETRAINED)" --seed="$$SEED" $(call flag,--model,MODEL) \
		$(call flag,--steps,STEPS) $(call flag,--minutes,MINUTES) \
		$(call flag,--init_checkpoint,INIT) $(call flag,--more_flags,TRAIN_FLAGS)

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

features: setup ## Write features of tokens or words: MODEL=model INPUT=texts.txt OUT=features.tfrecord
	@$(RUN) -m bert_tf features --model="$$MODEL" --input="$$INPUT" $(call flag,--output,OUT) \
		$(call flag,--more_flags,FEATURE_FLAGS)

look: setup ## Look inside a model, or at a run: MODEL=bert SENTENCE='It [MASK].' [SECOND=]
	@if [ -n "$$SENTENCE" ]; then \
		set -- --model="$$MODEL" --text="$$SENTENCE" $(call flag,--text_b,SECOND); \
		else set -- --run="$${MODEL:-savedmodels/pretrained}"; fi; \
	$(RUN) -m bert_tf look "$$@" $(call flag,--output,OUT) $(call flag,--more_flags,LOOK_FLAGS)

convert: setup ## Convert weights: INPUT=model OUT=folder FORMAT=bert_tf|tf1|huggingface
	@$(RUN) -m bert_tf convert --input="$$INPUT" --format="$$FORMAT" $(call flag,--output,OUT) \
		$(call flag,--task,TASK) $(call flag,--vocab,VOCAB) $(call flag,--more_flags,CONVERT_FLAGS)

experiments: corpus ## Re-run the paper's studies: [CORPUS='texts/*.txt' TASKS=rte=glue/RTE BUDGET=8h]
	@$(RUN) -m bert_tf experiments --corpus="$(TEXT)" --budget="$$BUDGET" \
		$(call flag,--tasks,TASKS) $(call flag,--only,ONLY) $(call flag,--seeds,SEEDS) \
		$(call flag,--vocab,VOCAB) $(call flag,--output,OUT) \
		$(call flag,--more_flags,EXPERIMENT_FLAGS)

export: setup ## Export a SavedModel: TASKS="mrpc squad2=folder pretrained" [PRECISION=int8 DEV=mrpc=dev.tsv]
	@$(RUN) -m bert_tf export --tasks="$$TASKS" $(call flag,--output,OUT) \
		--precision="$$PRECISION" $(call flag,--dev,DEV)

export-hub: setup ## Export the TF Hub pair of encoder and preprocessor: MODEL=savedmodels/pretrained
	@$(RUN) -m bert_tf export-hub $(call flag,--model,MODEL) $(call flag,--output,OUT)

export-portable: setup ## Export for LiteRT and ONNX: TASKS="mrpc pos"
	@$(RUN) -m bert_tf export-portable --tasks="$$TASKS" $(call flag,--output,OUT)

serve: setup ## Serve an export over gRPC and REST, with a page: MODEL=savedmodels/bert [HOST=]
	@$(RUN) -m bert_tf serve $(call flag,--model,MODEL) --host="$$HOST" \
		$(call flag,--more_flags,SERVE_FLAGS)

show: setup ## Print a few examples: tokens, masks and originals, segments, label
	@$(RUN) -m bert_tf show-examples --tfrecords="$$TFRECORDS"

test: setup ## Run the tests
	$(PYTEST) -m "not slow"

test-all: setup peers beam ## Run the tests, slow ones too (with the peers as reference, and Beam)
	PEER_PYTHON="$$(cd "$$PEERS/bin" && pwd)/python" BEAM_PYTHON="$$(cd "$$BEAM/bin" && pwd)/python" \
		$(PYTEST)

bench: setup peers ## Measure side by side with peers (BERT_CLONE=, BENCH_FLAGS=)
	@$(RUN) -m benchmarks --peer_python="$$PEERS/bin/python" --bert_clone="$$BERT_CLONE" \
		$(call flag,--more_flags,BENCH_FLAGS)

soak: setup ## Inject faults for MINUTES and count the results: kills, damage, disks, requests
	@$(RUN) -m benchmarks.soak --record=benchmarks/soak.json --seed="$$SEED" \
		$(if $(filter-out file,$(origin MINUTES)),$(call flag,--minutes,MINUTES)) $$SOAK_FLAGS

docs: ## Build the documentation: build/docs/index.html
	$(call environment,$$VENV-docs,docs/requirements.txt)
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
