"""What make_reference.py and check_checkpoint.py share: a DeepSeek-V3 of transformers. Batches are the Llama's."""

import json
import pathlib
import sys

import transformers
from safetensors import safe_open
from safetensors.torch import load_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "llama" / "reference"))
from batches import batch, loss_and_logits  # noqa: E402,F401


def config_of(s):
    """The DeepseekV3Config of one of the shapes."""
    return dict(
        model_type="deepseek_v3", hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        first_k_dense_replace=s["dense_layers"], num_attention_heads=s["heads"], num_key_value_heads=s["heads"],
        q_lora_rank=s["q_rank"], kv_lora_rank=s["kv_rank"], qk_rope_head_dim=s["rope"], qk_nope_head_dim=s["nope"],
        v_head_dim=s["value"], intermediate_size=s["dense_ffn"], moe_intermediate_size=s["expert_ffn"],
        n_routed_experts=s["experts"], n_shared_experts=s["shared"], num_experts_per_tok=s["top_k"],
        n_group=s["groups"], topk_group=s["top_groups"], routed_scaling_factor=s["scale"], vocab_size=s["vocabulary"],
        norm_topk_prob=True, tie_word_embeddings=False, rms_norm_eps=1e-6, rope_theta=10000.0, rope_scaling=None,
        rope_interleave=True, hidden_act="silu", attention_bias=False)


def build(config):
    entries = {key: value for key, value in config.items() if key != "model_type"}
    return transformers.DeepseekV3ForCausalLM(
        transformers.DeepseekV3Config(**entries, attn_implementation="eager")).float()


def load(path):
    """The model of a checkpoint whose metadata hold its configuration, in float32."""
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
    model = build(config)
    weights = {name: values.float() for name, values in load_file(path).items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or missing:
        raise SystemExit(f"{path}: missing {missing}, unexpected {unexpected}")
    return model, config
