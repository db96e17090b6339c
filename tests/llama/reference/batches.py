"""What the reference programs of all examples share: an example's batches, and the loss on them."""

import torch


def loss_and_logits(model, inputs, targets):
    """Mean loss in nats per token. Each input has its own target, so nothing is shifted here."""
    logits = model(input_ids=inputs.long(), use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.long().reshape(-1))
    return loss, logits


class SplitMix64:
    """examples/common/random.hpp."""

    def __init__(self, seed):
        self.state = seed % 2**64

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)


def batch(tokens, seed, index, sequences, length):
    """token_stream::fill: sequences from random places of the tokens, and the token that follows each one."""
    numbers = SplitMix64(seed * 0x9E3779B97F4A7C15 + index)
    places = [numbers.next() % (len(tokens) - length) for _ in range(sequences)]
    inputs = torch.tensor([list(tokens[p : p + length]) for p in places], dtype=torch.int32)
    targets = torch.tensor([list(tokens[p + 1 : p + 1 + length]) for p in places], dtype=torch.int32)
    return inputs, targets
