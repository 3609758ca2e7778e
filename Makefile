# bert-tf: raw text in, a pre-trained and fine-tuned BERT out. `make help` lists the targets.

.DEFAULT_GOAL := help

# The variables. The line above each one is its text in `make help`.
## Text to train on, files or globs; default: the built-in corpus
CORPUS ?=
## A vocab.txt, or a folder with a vocabulary; default: learned; of convert: that of the model
VOCAB ?=
## A size (base, roberta-base) or a bert_config.json, for pretrain; else the folder of a model
MODEL ?=
## Folder or file of the result; default: that of --output of the command
OUT ?=
## A task, such as mrpc, squad2 or classification, or NAME=TASK; or one of the tasks of a model
TASK ?=
## Folder with the data of the task, or a file
DATA ?=
## The model to start from, in any format
INIT ?=
## The model to distil, a masked LM in any format
TEACHER ?=
## A file of examples to predict, of texts or words, or the model to convert
INPUT ?=
## The text to continue
PROMPT ?=
## Format to write: bert_tf, tf1 or huggingface
FORMAT ?= bert_tf
## Tasks to export (names, NAME=FOLDER, pretrained) or of experiments (KIND=PATH); default: all
TASKS ?=
## Steps of pre-training; default: those of the recipe
STEPS ?=
# The built-in recipe is fitted to the speed of the machine, unless steps are given.
BUILTIN_MINUTES := $(if $(or $(value STEPS),$(value INIT),$(value RECIPE)),,4)
## Minutes of training, search or soak; default: 4 (built-in recipe), 60 (soak)
MINUTES ?=
# Adapting a given model, or distilling one, uses folders of its own.
ifdef INIT
TFRECORDS ?= tfrecords/adapted
RECIPE ?= recipes/adaptation.flags
endif
ifdef TEACHER
TFRECORDS ?= tfrecords/distillation
RECIPE ?= recipes/distillation.flags
endif
## Folder of the pre-training examples
TFRECORDS ?= tfrecords/pretraining
## Flag file of pre-training
RECIPE ?= recipes/builtin.flags
## Where vocabulary and examples are made: local (this machine) or beam (Apache Beam)
RUNNER ?= local
## Options of Beam's pipeline, such as '--runner=FlinkRunner --flink_master=host:8081'
PIPELINE ?=
## A text for the model to read; default: the report of its pre-training
SENTENCE ?=
## The second text of a pair, or the context of a question
SECOND ?=
## Time for the experiments, such as 10m, 8h or 2d
BUDGET ?= 8h
## More flags of the command; put a flag with blanks in quotes
ARGS ?=
## More flags of learn-vocabulary, also for examples and pretrain
VOCAB_ARGS ?=
## More flags of write-examples, also for pretrain
EXAMPLE_ARGS ?=
## Environment of the other programs that are compared with
PEERS ?= .venv-peers
## Environment of Apache Beam
BEAM ?= .venv-beam
## Test files that run at once; each may need 6 GiB
JOBS ?= 2
## Python 3.11, which creates the environments
PYTHON ?= python3
## The environment
VENV ?= .venv

TARGETS := help setup peers beam corpus vocab examples tfrecords pretrain distill show finetune \
	predict generate embed features look convert experiments export export-hub export-portable serve test \
	test-all bench soak docs smoke lint format clean
.PHONY: $(TARGETS)
# The variables that each target uses; all of them use ALWAYS.
ALWAYS := PYTHON VENV
USES_peers := PEERS
USES_beam := BEAM
USES_corpus := CORPUS TFRECORDS
USES_vocab := $(USES_corpus) VOCAB INIT TEACHER RUNNER PIPELINE BEAM VOCAB_ARGS
USES_examples := $(USES_vocab) EXAMPLE_ARGS
USES_tfrecords := $(USES_examples)
USES_pretrain := $(USES_examples) MODEL STEPS MINUTES RECIPE OUT ARGS
USES_distill := $(USES_examples) STEPS MINUTES RECIPE OUT ARGS
USES_show := TFRECORDS ARGS
USES_finetune := TASK DATA INIT OUT MINUTES ARGS
USES_predict := MODEL INPUT TASK OUT ARGS
USES_generate := MODEL PROMPT ARGS
USES_embed := MODEL INPUT OUT ARGS
USES_features := MODEL INPUT OUT ARGS
USES_look := MODEL SENTENCE SECOND OUT ARGS
USES_convert := INPUT OUT FORMAT TASK VOCAB ARGS
USES_experiments := $(USES_corpus) TASKS BUDGET VOCAB OUT ARGS
USES_export := TASKS OUT ARGS
USES_export-hub := MODEL OUT ARGS
USES_export-portable := TASKS OUT ARGS
USES_serve := MODEL ARGS
USES_test := JOBS
USES_test-all := JOBS PEERS BEAM
USES_bench := PEERS ARGS
USES_soak := MINUTES ARGS
USES_clean := TFRECORDS OUT
VARIABLES := $(sort $(ALWAYS) $(foreach target,$(TARGETS),$(USES_$(target))))

# A variable that is given and not used is an error. Those of make itself, and those given to another
# make that runs this one, do not count.
GOALS := $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))
GIVEN := $(foreach name,$(filter-out MAKE% SHELL .% -%,$(.VARIABLES)),$(if \
	$(findstring command line,$(origin $(name))),$(name)))
USED := $(sort $(foreach goal,$(GOALS),$(USES_$(goal))))
UNUSED := $(firstword $(filter-out $(ALWAYS) $(USED),$(GIVEN)))
USERS := $(strip $(foreach target,$(TARGETS),$(if $(filter $(UNUSED),$(USES_$(target))),$(target))))
ifeq ($(MAKELEVEL)$(filter-out $(TARGETS),$(GOALS)),0)
ifneq ($(UNUSED),)
REMEDY := $(if $(USERS),it is for make $(USERS),put variables of the environment before make)
$(error $(UNUSED) is not used by make $(GOALS), which takes $(or $(USED),no variables); $(REMEDY))
endif
endif

ifneq ($(filter distill,$(GOALS)),)
ifeq ($(value TEACHER),)
$(error name the model to distil, such as TEACHER=savedmodels/pretrained)
endif
endif
ifneq ($(and $(value TEACHER),$(or $(value INIT),$(filter pretrain,$(GOALS)))),)
$(error TEACHER is for make distill, and a student does not start from INIT)
endif

# Values reach the commands unchanged, through the environment: make would expand dollars, and the
# shell quotes, blanks and semicolons. So recipes write "$$OUT", never $(OUT).
$(foreach name,$(VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(VARIABLES)

# `set -x` prints the command; with `exec`, signals that make passes on reach it.
RUN := set -x; exec env TF_CPP_MIN_LOG_LEVEL=2 "$$VENV/bin/python"
# The same in the environment of the chosen runner.
RUN_THERE := [ "$$RUNNER" != beam ] || VENV="$$BEAM"; $(RUN)
# Without restarts: xdist assigns the files of a crashed process again, the finished ones too, and then
# waits for ever.
PYTEST := "$$VENV/bin/python" -m pytest -n "$$JOBS" --dist loadfile --no-loadscope-reorder \
	--max-worker-restart=0
INSTALL := -m pip install --quiet --disable-pip-version-check
# Creates an environment unless it exists; $(call environment,FOLDER,REQUIREMENTS[,with bert-tf]).
environment = @if [ ! -e "$1/.ready" ] || [ $2 -nt "$1/.ready" ]; then \
		"$$PYTHON" -m venv "$1" && "$1/bin/python" $(INSTALL) -r $2 \
		$(if $3,&& "$1/bin/python" $(INSTALL) --no-deps --editable .) && touch "$1/.ready"; fi
# A flag, if its variable is set; $(call flag,--output,OUT).
flag = $${$2:+"$1=$$$2"}
MORE := $(call flag,--more_flags,ARGS)
# The text to train on, the vocabulary, and where the model goes.
TEXT := $${CORPUS:-$$TFRECORDS/builtin_corpus.txt}
OWN_VOCAB := $$TFRECORDS/$(if $(value INIT)$(value TEACHER),tokenizer,learned_vocab.txt)
VOCAB_FILE := $${VOCAB:-$(OWN_VOCAB)}
PRETRAINED := $${OUT:-savedmodels/$(if $(value INIT),adapted,pretrained)}
# A student learns from examples that are masked while it trains.
UNMASKED := $(if $(value TEACHER),--objective=mlm --masking=dynamic)
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

peers: ## Make .venv-peers, with the programs that benchmarks compare with
	$(call environment,$$PEERS,benchmarks/requirements.txt)

beam: ## Make .venv-beam, with Apache Beam
	$(call environment,$$BEAM,requirements-beam.txt,with bert-tf)

corpus: setup ## Write the built-in corpus (unless CORPUS names one)
	@if [ -z "$$CORPUS" ]; then \
		$(RUN) -m bert_tf make-corpus --output="$(TEXT)"; fi

ifeq ($(value RUNNER),beam)
vocab: beam
endif

vocab: corpus ## Learn a WordPiece vocabulary (unless VOCAB names one, or INIT a model)
	@if [ -n "$$INIT$$TEACHER" ]; then \
		$(RUN) -m bert_tf convert --input="$${INIT:-$$TEACHER}" --output="$(OWN_VOCAB)" \
			--tokenizer_only; fi
	@if [ -z "$$VOCAB$$INIT$$TEACHER" ]; then \
		recipe=$$([ -n "$$CORPUS" ] || echo --flagfile=recipes/vocabulary.flags); \
		$(RUN_THERE) -m bert_tf learn-vocabulary --input="$(TEXT)" --output="$(VOCAB_FILE)" \
			--runner="$$RUNNER" $(call flag,--pipeline,PIPELINE) \
			$$recipe $(call flag,--more_flags,VOCAB_ARGS); fi

examples: vocab ## Write masked sentence pairs as TFRecords
	@$(RUN_THERE) -m bert_tf write-examples --input="$(TEXT)" --vocab="$(VOCAB_FILE)" \
		--runner="$$RUNNER" $(call flag,--pipeline,PIPELINE) \
		--output="$$TFRECORDS" --flagfile=$(EXAMPLE_RECIPE) $(UNMASKED) \
		$(call flag,--more_flags,EXAMPLE_ARGS)

tfrecords: examples ## The same, here or on a cluster: RUNNER=local|beam CORPUS= VOCAB= [PIPELINE='--...']

pretrain: examples ## Do it all: corpus, vocabulary, TFRecords, training, SavedModel, report [INIT=model]
	@: "$${MINUTES:=$(BUILTIN_MINUTES)}"; \
	$(RUN) -m bert_tf pretrain --flagfile="$$RECIPE" --tfrecords="$$TFRECORDS" \
		--output="$(PRETRAINED)" $(call flag,--model,MODEL) $(call flag,--steps,STEPS) \
		$(call flag,--minutes,MINUTES) $(call flag,--init_checkpoint,INIT) $(MORE)

distill: examples ## Distil a pre-trained model into a smaller one: TEACHER=savedmodels/pretrained
	@: "$${MINUTES:=$(BUILTIN_MINUTES)}"; \
	$(RUN) -m bert_tf distill --flagfile="$$RECIPE" --teacher="$$TEACHER" --tfrecords="$$TFRECORDS" \
		$(call flag,--output,OUT) $(call flag,--steps,STEPS) $(call flag,--minutes,MINUTES) $(MORE)

finetune: setup ## Fine-tune for a task: TASK=mrpc DATA=glue/MRPC INIT=model [MINUTES=] [ARGS=--seeds=1,2,3]
	@recipe=; for task in ner squad1 squad2 swag; do \
		case "$$TASK" in *,*) ;; $$task | *=$$task) recipe=--flagfile=recipes/$$task.flags ;; esac; done; \
	$(RUN) -m bert_tf finetune --task="$$TASK" $$recipe --init="$$INIT" $(call flag,--data,DATA) \
		$(call flag,--output,OUT) $(call flag,--search_minutes,MINUTES) $(MORE)

predict: setup ## Predict for a file: MODEL=savedmodels/finetuned/mrpc INPUT=test.tsv
	@$(RUN) -m bert_tf predict --model="$$MODEL" --input="$$INPUT" $(call flag,--task,TASK) \
		$(call flag,--output,OUT) $(MORE)

generate: setup ## Continue a text: MODEL=savedmodels/gpt PROMPT='The function' [ARGS='--temperature=0.8']
	@$(RUN) -m bert_tf generate --model="$$MODEL" --prompt="$$PROMPT" $(MORE)

embed: setup ## Write vectors of texts: MODEL=savedmodels/pretrained INPUT=texts.txt OUT=vectors.npy
	@$(RUN) -m bert_tf embed --model="$$MODEL" --input="$$INPUT" $(call flag,--output,OUT) $(MORE)

features: setup ## Write features of tokens or words: MODEL=model INPUT=texts.txt OUT=features.tfrecord
	@$(RUN) -m bert_tf features --model="$$MODEL" --input="$$INPUT" $(call flag,--output,OUT) $(MORE)

look: setup ## Look inside a model, or at a run: MODEL=bert SENTENCE='It [MASK].' [SECOND=]
	@if [ -n "$$SENTENCE" ]; then \
		set -- --model="$$MODEL" --text="$$SENTENCE" $(call flag,--text_b,SECOND); \
		else set -- --run="$${MODEL:-savedmodels/pretrained}" $(call flag,--text_b,SECOND); fi; \
	$(RUN) -m bert_tf look "$$@" $(call flag,--output,OUT) $(MORE)

convert: setup ## Convert weights: INPUT=model OUT=folder FORMAT=bert_tf|tf1|huggingface
	@$(RUN) -m bert_tf convert --input="$$INPUT" --format="$$FORMAT" $(call flag,--output,OUT) \
		$(call flag,--task,TASK) $(call flag,--vocab,VOCAB) $(MORE)

experiments: corpus ## Re-run the paper's studies: [CORPUS='texts/*.txt' TASKS=rte=glue/RTE BUDGET=8h]
	@$(RUN) -m bert_tf experiments --corpus="$(TEXT)" --budget="$$BUDGET" \
		$(call flag,--tasks,TASKS) $(call flag,--vocab,VOCAB) $(call flag,--output,OUT) $(MORE)

export: setup ## Export a SavedModel: TASKS="mrpc squad2=folder pretrained"
	@$(RUN) -m bert_tf export --tasks="$$TASKS" $(call flag,--output,OUT) $(MORE)

export-hub: setup ## Export the TF Hub pair of encoder and preprocessor: MODEL=savedmodels/pretrained
	@$(RUN) -m bert_tf export-hub $(call flag,--model,MODEL) $(call flag,--output,OUT) $(MORE)

export-portable: setup ## Export for LiteRT and ONNX: TASKS="mrpc pos"
	@$(RUN) -m bert_tf export-portable --tasks="$$TASKS" $(call flag,--output,OUT) $(MORE)

serve: setup ## Serve an export over gRPC and REST, with a page: MODEL=savedmodels/bert
	@$(RUN) -m bert_tf serve $(call flag,--model,MODEL) $(MORE)

show: setup ## Print a few examples: tokens, masks and originals, segments, label
	@$(RUN) -m bert_tf show-examples --tfrecords="$$TFRECORDS" $(MORE)

test: setup ## Run the tests
	$(PYTEST) -m "not slow"

test-all: setup peers beam ## Run the tests, slow ones too (with the peers as reference, and Beam)
	PEER_PYTHON="$$(cd "$$PEERS/bin" && pwd)/python" BEAM_PYTHON="$$(cd "$$BEAM/bin" && pwd)/python" \
		$(PYTEST)

bench: setup peers ## Compare with other programs: [ARGS='--bert_clone=a-clone-of-google-research/bert']
	@$(RUN) -m benchmarks --peer_python="$$PEERS/bin/python" $(MORE)

soak: setup ## Inject faults for MINUTES and count the results: kills, damage, disks, requests
	@$(RUN) -m benchmarks.soak --record=benchmarks/soak.json $(call flag,--minutes,MINUTES) $(MORE)

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
