#!/usr/bin/env python3
"""Makes tests/data/llama_*.safetensors: tiny random Llamas, and what PyTorch computes with them in float32.

    python3 -m venv /tmp/reference
    /tmp/reference/bin/pip install torch==2.6.0 transformers==4.57.1 safetensors 'numpy<2.3'
    /tmp/reference/bin/python tests/llama/reference/make_reference.py

llama_NAME.safetensors holds the weights under Hugging Face's names; its metadata hold the LlamaConfig. In
llama_NAME.expected.safetensors are

    tokens              the training text: bytes below the vocabulary
    inputs, targets     batch 3 of seed 7 from it, [sequences, length]
    loss                mean over the batch, nats per token
    logits              [sequences, length, vocabulary]
    gradient.WEIGHT     of the loss, for each weight by its name

and in its metadata the versions that made it. tests/llama/reference.cpp compares the example's results with these.
"""

import json
import pathlib
import platform

import safetensors
import torch
import transformers
from safetensors.torch import save_file

import model as common

SEED, INDEX = 7, 3
SHAPES = {  # odd sizes on purpose; `sequence` and `sequences` are of the batch
    "grouped": dict(hidden=24, layers=2, heads=4, kv_heads=2, ffn=29, vocabulary=37, tied=False, sequence=9, sequences=3),
    "tied": dict(hidden=16, layers=3, heads=2, kv_heads=1, ffn=21, vocabulary=41, tied=True, sequence=7, sequences=2),
    "one_layer": dict(hidden=30, layers=1, heads=3, kv_heads=3, ffn=17, vocabulary=23, tied=False, sequence=5, sequences=4),
}


def main():
    torch.manual_seed(20240520)
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parents[2] / "data"
    folder.mkdir(exist_ok=True)
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "machine": platform.machine(),
        "seed": str(SEED),
        "batch": str(INDEX),
    }
    for name, s in SHAPES.items():
        config = dict(
            model_type="llama", hidden_size=s["hidden"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
            num_key_value_heads=s["kv_heads"], head_dim=s["hidden"] // s["heads"], intermediate_size=s["ffn"],
            vocab_size=s["vocabulary"], tie_word_embeddings=s["tied"], rms_norm_eps=1e-5, rope_theta=500000.0,
            rope_scaling=None, hidden_act="silu", attention_bias=False, mlp_bias=False)
        model = common.build(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 1:
                    weight.copy_(1 + 0.2 * torch.randn_like(weight))
                else:
                    weight.normal_(0, weight.shape[1] ** -0.5)
        tokens = torch.randint(0, s["vocabulary"], (64,), dtype=torch.uint8)
        inputs, targets = common.batch(tokens.tolist(), SEED, INDEX, s["sequences"], s["sequence"])
        loss, logits = common.loss_and_logits(model, inputs, targets)
        loss.backward()

        expected = {"tokens": tokens, "inputs": inputs, "targets": targets, "loss": loss.detach().reshape(1),
                    "logits": logits.detach().contiguous()}
        weights = {}
        for weight_name, weight in model.named_parameters():  # a tied head is not among them
            weights[weight_name] = weight.detach().contiguous()
            expected["gradient." + weight_name] = weight.grad.contiguous()
        save_file(weights, folder / f"llama_{name}.safetensors", {"format": "pt", "config": json.dumps(config)})
        save_file(expected, folder / f"llama_{name}.expected.safetensors", versions)
        print(f"{name}: loss {loss.item():.7f}, {sum(w.numel() for w in weights.values())} weights, {versions}")


if __name__ == "__main__":
    main()
