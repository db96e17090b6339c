"""What make_reference.py and check_checkpoint.py share: a Llama of transformers."""

import json

import transformers
from safetensors import safe_open
from safetensors.torch import load_file

from batches import batch, loss_and_logits  # noqa: F401


def load(path):
    """The model of a checkpoint whose metadata hold its LlamaConfig, in float32."""
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
    model = build(config)
    weights = {name: values.float() for name, values in load_file(path).items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    tied = ["lm_head.weight"] if config["tie_word_embeddings"] else []
    if unexpected or missing != tied:
        raise SystemExit(f"{path}: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model, config


def build(config):
    entries = {key: value for key, value in config.items() if key != "model_type"}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**entries, attn_implementation="eager")).float()
