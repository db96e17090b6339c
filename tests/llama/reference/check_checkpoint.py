#!/usr/bin/env python3
"""Trains with the example, saves, and lets transformers compute the loss of what was saved.

    PYTHON tests/llama/reference/check_checkpoint.py build/demo/bin/llama

with an interpreter as make_reference.py describes. For float and bf16, grouped and tied: `llama --save FILE` trains and
writes; `llama --init FILE` with a learning rate too small to change a weight then shows the loss of the saved weights
on a batch, and transformers has to find the same one to 1e-5 (bf16: to the tolerance that its rounded arithmetic
needs). The saved model is also written and read with save_pretrained and from_pretrained. Prints a line for each;
exit code 1 where one differs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

import model as common

SIZES = dict(layers=2, hidden=48, heads=4, ffn=80, sequence=12, vocabulary=256, batch=3, seed=5)
STEPS = 3  # the loss shown is of the last batch, number STEPS - 1


def run(program, text, output, extra):
    options = [f"--{key}={value}" for key, value in SIZES.items()]
    command = [program, *options, *extra, f"--text={text}", "--placement=mixed", f"--steps={STEPS}", f"--json={output}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(output.read_text())["rows"][0]["final_loss"]


def main():
    program = sys.argv[1]
    text = pathlib.Path(__file__).resolve().parents[3] / "LICENSE"
    tokens = text.read_bytes()
    inputs, targets = common.batch(tokens, SIZES["seed"], STEPS - 1, SIZES["batch"], SIZES["sequence"])
    failed = False
    with tempfile.TemporaryDirectory() as folder_name, torch.no_grad():
        folder = pathlib.Path(folder_name)
        for kind, tolerance in (("float", 1e-5), ("bf16", 2e-2)):
            for shape in (["--kv-heads=2"], ["--kv-heads=1", "--tied"]):
                saved = folder / "model.safetensors"
                trained = run(program, text, folder / "out.json", [*shape, f"--type={kind}", f"--save={saved}"])
                here = run(program, text, folder / "out.json",
                           [*shape, f"--type={kind}", f"--init={saved}", "--learning-rate=1e-30"])
                model, _ = common.load(saved)
                there = common.loss_and_logits(model, inputs, targets)[0].item()
                model.save_pretrained(folder / "pretrained")
                again = transformers.LlamaForCausalLM.from_pretrained(folder / "pretrained").float()
                read = run(program, text, folder / "out.json",
                           [*shape, f"--type={kind}", f"--init={folder / 'pretrained' / 'model.safetensors'}",
                            "--learning-rate=1e-30"])
                there_again = common.loss_and_logits(again, inputs, targets)[0].item()
                good = abs(here - there) < tolerance and read == here and abs(there_again - there) < 1e-5
                failed = failed or not good
                print(f"{kind} {' '.join(shape)}: last trained {trained:.6f}, saved weights: llama {here:.7f}, "
                      f"transformers {there:.7f}, through from_pretrained {there_again:.7f} and back {read:.7f}: "
                      f"{'equal' if good else 'DIFFERENT'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
