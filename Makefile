# bert-tf: raw text in, a pre-trained and fine-tuned BERT out. `make help` lists targets and variables.
# Variables, given as `make TARGET NAME=value`; those of the environment do not count.
CORPUS := ## Text to train on, files or globs; default: the built-in corpus
VOCAB := ## A vocab.txt, or a folder with a vocabulary; default: learned; of convert: that of the model
MODEL := ## A size (base, roberta-base) or a bert_config.json, for pretrain; else the folder of a model
INIT := ## The model to start from, in any format
TEACHER := ## The model to distil, a masked LM in any format
TASK := ## A task, such as mrpc, squad2 or classification, or NAME=TASK; or one of the tasks of a model
TASKS := ## Tasks to export (names, NAME=FOLDER, pretrained) or of experiments (KIND=PATH); default: all
DATA := ## Folder with the data of the task, or a file
INPUT := ## A file of examples to predict, of texts or words, or the model to convert
PROMPT := ## The text to continue
SENTENCE := ## A text for the model to read; default: the report of its pre-training
SECOND := ## The second text of a pair, or the context of a question
OUT := ## Folder or file of the result; default: that of --output of the command
STEPS := ## Steps of pre-training; default: those of the recipe
MINUTES := ## Minutes of training, search or soak; default: 4 (built-in recipe), 60 (soak)
BUDGET := ## Time for the experiments: trial, 10m, 2h, 8h or 24h
ARGS := ## More flags of the command; put a flag with blanks in quotes
VOCAB_ARGS := ## More flags of learn-vocabulary, also for examples and pretrain
EXAMPLE_ARGS := ## More flags of write-examples, also for pretrain
RECIPE := recipes/$(if $(INIT),adaptation,$(if $(TEACHER),distillation,builtin)).flags ## Flag file
TFRECORDS := tfrecords/$(if $(INIT),adapted,$(if $(TEACHER),distillation,pretraining)) ## Examples
RUNNER := local ## Where vocabulary and examples are made: local (this machine) or beam (Apache Beam)
PIPELINE := ## Options of Beam's pipeline, such as '--runner=FlinkRunner --flink_master=host:8081'
PYTHON := python3 ## Python 3.11 to 3.13, which creates the environments
VENV := .venv ## The environment
JOBS := 2 ## Test files that run at once; each may need 6 GiB
VARIABLES := $(shell sed -n 's/^\([A-Z_]*\) := .*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))
$(foreach name,$(filter-out $(VARIABLES) MAKE% -%,$(.VARIABLES)),$(if $(findstring command line,$(origin \
	$(name))),$(error unknown variable $(name); `make help` lists all)))
# Values reach commands by the environment, as "$$OUT": of $(OUT), make would expand dollars, the shell quotes.
$(foreach name,$(VARIABLES),$(eval override $(name) := \
	$$(if $$(filter file,$$(origin $(name))),$$(strip $$($(name))),$$(value $(name)))))
export $(VARIABLES)
# `set -x` prints the command; with `exec`, signals that make passes on reach it.
RUN := set -x; exec env TF_CPP_MIN_LOG_LEVEL=2 "$$VENV/bin/python"
BERT_TF := $(RUN) -m bert_tf
BERT_TF_THERE := [ "$$RUNNER" != beam ] || VENV=.venv-beam; $(BERT_TF)
# Without restarts: xdist assigns the files of a crashed process again, and then waits for ever.
# In large pages: on a virtual machine within another one, all takes half the time (TensorFlow's import a third).
PYTEST := PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "$$VENV/bin/python" -m pytest -n "$$JOBS" \
	--dist loadfile --no-loadscope-reorder --max-worker-restart=0
# Installs requirements, unless it is done: $(call install,FOLDER,REQUIREMENTS[,with bert-tf]).
install = @[ "$1/.$(notdir $2)" -nt $2 ] || { "$$PYTHON" -m venv "$1" && \
	"$1/bin/python" -m pip install --quiet --disable-pip-version-check -r $2 && \
	$(if $3,"$1/bin/python" -m pip install --quiet --no-deps --editable . &&) touch "$1/.$(notdir $2)"; }
# A flag, if its variable is set: $(call flag,--output,OUT).
flag = $${$2:+"$1=$$$2"}
MORE := $(call flag,--output,OUT) $(call flag,--more_flags,ARGS)
# Each variable that is set becomes its flag; a command refuses a flag that it does not have.
FLAGS := $(call flag,--model,MODEL) $(call flag,--input,INPUT) $(call flag,--prompt,PROMPT) \
	$(call flag,--sentence,SENTENCE) $(call flag,--second,SECOND) $(call flag,--task,TASK) \
	$(call flag,--tasks,TASKS) $(call flag,--vocab,VOCAB) $(MORE)
# The text to train on, and the vocabulary: learned, or that of the model to start from.
TEXT := $${CORPUS:-$$TFRECORDS/builtin_corpus.txt}
OWN_VOCAB := $$TFRECORDS/$(if $(INIT)$(TEACHER),tokenizer,learned_vocab.txt)
WHERE := --runner="$$RUNNER" $(call flag,--pipeline,PIPELINE)
# The built-in recipe is fitted to the speed of the machine, unless steps are given.
FITTED := : "$${MINUTES:=$(if $(STEPS)$(filter-out %/builtin.flags %/distillation.flags,$(RECIPE)),,4)}";
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))
help: ## List the targets and the variables
	@awk -F ':.*## | *:= *| *## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 } \
		/^[A-Z_]+ := .*## / { names = names sprintf("  %-12s %s\n", $$1, $$NF) } \
		END { printf "\nVariables, as NAME=value:\n\n%s", names }' Makefile
setup: ## Make the environment that runs bert-tf
	$(call install,$(VENV),requirements.txt,with bert-tf)
develop: setup ## Add what tests and checks it
	$(call install,$(VENV),requirements-dev.txt)
peers: ## Make the environment of the programs that benchmarks compare with
	$(call install,.venv-peers,benchmarks/requirements.txt)
beam: ## Make the environment with Apache Beam
	$(call install,.venv-beam,requirements-beam.txt,with bert-tf)
corpus: setup ## Write the built-in corpus (unless CORPUS names one)
	@[ -n "$$CORPUS" ] || { $(BERT_TF) make-corpus --output="$(TEXT)"; }
vocab: corpus $(filter beam,$(RUNNER)) ## Learn a WordPiece vocabulary (unless VOCAB names one, or INIT a model)
	@$(if $(INIT)$(TEACHER),$(BERT_TF) convert --input="$$INIT$$TEACHER" --output="$(OWN_VOCAB)" \
		--tokenizer_only,[ -n "$$VOCAB" ] || { $(BERT_TF_THERE) learn-vocabulary --corpus="$(TEXT)" \
		--output="$(OWN_VOCAB)" $(WHERE) $(if $(CORPUS),,--flagfile=recipes/vocabulary.flags) \
		$(call flag,--more_flags,VOCAB_ARGS); })
examples: vocab ## Write masked sentence pairs as TFRecords: [CORPUS='texts/*.txt'] [RUNNER=beam]
	@$(BERT_TF_THERE) write-examples --corpus="$(TEXT)" --vocab="$${VOCAB:-$(OWN_VOCAB)}" $(WHERE) \
		--output="$$TFRECORDS" --flagfile=recipes/$(if $(INIT),adaptation_)examples.flags \
		$(if $(TEACHER),--objective=mlm --masking=dynamic,$(if $(INIT)$(filter-out %/builtin.flags,$(RECIPE))$(findstring \
		--objective,$(EXAMPLE_ARGS)),,--flagfile=recipes/more_masks.flags)) $(call flag,--more_flags,EXAMPLE_ARGS)
pretrain: ## Do it all: corpus, vocabulary, TFRecords, training, SavedModel, report [INIT=model]
distill: ## Distil a pre-trained model into a smaller one: TEACHER=savedmodels/pretrained
pretrain distill: examples
	@$(FITTED) $(BERT_TF) $@ --flagfile="$$RECIPE" --tfrecords="$$TFRECORDS" $(call flag,--model,MODEL) \
		$(call flag,--init,INIT) $(call flag,--teacher,TEACHER) \
		$(call flag,--steps,STEPS) $(call flag,--minutes,MINUTES) $(MORE)
labelled: setup ## Write the built-in labelled texts (unless TASK and DATA name others)
	@[ -n "$$TASK$$DATA" ] || { $(BERT_TF) make-labelled --output=tfrecords/topics; }
finetune: labelled ## Fine-tune: [TASK=mrpc DATA=glue/MRPC] [INIT=savedmodels/pretrained] [ARGS=--seeds=1,2,3]
	@recipe="recipes/$${TASK##*=}.flags"; case "$$TASK" in *,*) recipe= ;; esac; [ -e "$$recipe" ] || recipe=; \
	$(BERT_TF) finetune $${recipe:+"--flagfile=$$recipe"} --task="$${TASK:-topics=classification}" \
		--init="$${INIT:-savedmodels/pretrained}" $(call flag,--search_minutes,MINUTES) \
		$(if $(TASK)$(DATA),$(call flag,--data,DATA),--flagfile=recipes/topics.flags) $(MORE)
predict: ## Predict for a file: MODEL=savedmodels/finetuned/mrpc INPUT=test.tsv
generate: ## Continue a text: MODEL=savedmodels/gpt PROMPT='The function' [ARGS='--temperature=0.8']
embed: ## Write vectors of texts: MODEL=savedmodels/pretrained INPUT=texts.txt OUT=vectors.npy
features: ## Write features of tokens or words: MODEL=model INPUT=texts.txt OUT=features.npy
convert: ## Convert weights: INPUT=model OUT=folder [ARGS=--format=huggingface]
export: ## Export a SavedModel: TASKS="mrpc squad2=folder pretrained"
export-hub: ## Export the TF Hub pair of encoder and preprocessor: MODEL=savedmodels/pretrained
export-portable: ## Export for LiteRT and ONNX: TASKS="mrpc pos"
inspect: ## Write a page about a model, or about its training: MODEL=bert SENTENCE='It [MASK].' [SECOND=]
show: ## Print a few examples: tokens, masks and originals, segments, label
serve: ## Serve an export over gRPC and REST, with a page: MODEL=savedmodels/bert
predict generate embed features convert export export-hub export-portable inspect show serve: setup
	@$(BERT_TF) $(if $(filter show,$@),show-examples --tfrecords="$$TFRECORDS",$@) $(FLAGS)
experiments: corpus ## Re-run the paper's studies: [CORPUS='texts/*.txt' TASKS=rte=glue/RTE BUDGET=8h]
	@$(BERT_TF) experiments --corpus="$(TEXT)" $(call flag,--budget,BUDGET) $(FLAGS)
test: develop ## Run the tests that protect a change
	$(PYTEST) -m "not more and not slow"
test-more: develop ## Run those that take longer: kills, attacks, browsers, long runs
	$(PYTEST) -m "more and not slow"
test-all: develop peers beam ## Run all tests, also with real data, the peers as reference, and Beam
	PEER_PYTHON="$(CURDIR)/.venv-peers/bin/python" BEAM_PYTHON="$(CURDIR)/.venv-beam/bin/python" $(PYTEST)
bench: develop peers ## Compare with other programs: [ARGS='--bert_clone=a-clone-of-google-research/bert']
	@$(RUN) -m benchmarks --peer_python=.venv-peers/bin/python $(call flag,--more_flags,ARGS)
soak: develop ## Inject faults for MINUTES and count the results: kills, damage, disks, requests
	@$(RUN) -m benchmarks.soak --record=benchmarks/soak.json $(call flag,--minutes,MINUTES) $(MORE)
docs: ## Build the documentation: build/docs/index.html
	$(call install,$(VENV)-docs,docs/requirements.txt)
	"$$VENV-docs/bin/sphinx-build" -W --keep-going -q -b html docs build/docs
lint: develop ## Check style, format, directions of imports, and types
	PATH="$$VENV/bin:$$PATH"; ruff check . && ruff format --check . && lint-imports --no-cache && mypy
clean: setup ## Remove the examples in TFRECORDS, cached ones, and the pre-trained model in OUT
	@$(BERT_TF) clean --tfrecords="$$TFRECORDS" $(call flag,--output,OUT)
