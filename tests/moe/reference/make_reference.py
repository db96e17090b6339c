#!/usr/bin/env python3
"""Makes tests/data/moe_*.safetensors: tiny random DeepSeek-V3 models, and what PyTorch computes with them in float32.

    PYTHON tests/moe/reference/make_reference.py

with an interpreter as tests/llama/reference/make_reference.py describes. moe_NAME.safetensors holds the weights under
Hugging Face's names; its metadata hold the DeepseekV3Config. moe_NAME.expected.safetensors holds what the Llama's does:
tokens, inputs, targets, loss, logits, gradient.WEIGHT, and in its metadata the versions that made it.
tests/moe/reference.cpp compares the example's results with these.
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
    "groups": dict(layers=3, dense_layers=1, hidden=24, heads=3, q_rank=10, kv_rank=7, rope=4, nope=6, value=5,
                   dense_ffn=29, experts=8, top_k=3, shared=1, expert_ffn=9, groups=4, top_groups=2, scale=2.5,
                   vocabulary=37, sequence=9, sequences=3),
    "one_group": dict(layers=2, dense_layers=0, hidden=18, heads=2, q_rank=7, kv_rank=9, rope=6, nope=5, value=8,
                      dense_ffn=21, experts=5, top_k=2, shared=2, expert_ffn=11, groups=1, top_groups=1, scale=1.0,
                      vocabulary=41, sequence=7, sequences=2),
}


def main():
    torch.manual_seed(20241227)
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parents[2] / "data"
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
        config = common.config_of(s)
        model = common.build(config)
        with torch.no_grad():
            for weight_name, weight in model.state_dict().items():
                if weight_name.endswith("e_score_correction_bias"):
                    weight.normal_(0, 0.1)
                elif weight.dim() == 1:
                    weight.copy_(1 + 0.2 * torch.randn_like(weight))
                else:
                    weight.normal_(0, weight.shape[1] ** -0.5)
        tokens = torch.randint(0, s["vocabulary"], (64,), dtype=torch.uint8)
        inputs, targets = common.batch(tokens.tolist(), SEED, INDEX, s["sequences"], s["sequence"])
        loss, logits = common.loss_and_logits(model, inputs, targets)
        loss.backward()

        expected = {"tokens": tokens, "inputs": inputs, "targets": targets, "loss": loss.detach().reshape(1),
                    "logits": logits.detach().contiguous()}
        weights = {key: value.detach().contiguous() for key, value in model.state_dict().items()}
        for weight_name, weight in model.named_parameters():
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            expected["gradient." + weight_name] = gradient.contiguous()
        save_file(weights, folder / f"moe_{name}.safetensors", {"format": "pt", "config": json.dumps(config)})
        save_file(expected, folder / f"moe_{name}.expected.safetensors", versions)
        print(f"{name}: loss {loss.item():.7f}, {sum(w.numel() for w in weights.values())} weights, {versions}")


if __name__ == "__main__":
    main()
