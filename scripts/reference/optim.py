"""AdamW, clipping and schedules of docs/method.md, "Training", written out."""

import math

import torch
from torch import Tensor, nn

from config import Train
from mechanisms import LinformerAttention, NystromAttention
from model import Convolution


def decayed(model: nn.Module) -> set[str]:
    """Names of the parameters that weight decay touches: weights of linear layers, phi's too, and
    of convolutions, and the linear maps that are a mechanism's own."""
    maps = {nn.Linear: "weight", Convolution: "weight"}
    maps |= {LinformerAttention: "projection", NystromAttention: "conv"}
    return {
        f"{name}.{maps[type(module)]}"
        for name, module in model.named_modules()
        if type(module) in maps and hasattr(module, maps[type(module)])
    }


def schedule(train: Train, s: int, horizon: int) -> float:
    """The factor on the learning rate at update s = 1, 2, ...: warm-up times decay."""
    w = train.warmup
    warm = min(1.0, s / w) if w else 1.0
    if train.schedule == "constant":
        return warm
    if train.schedule == "rsqrt":
        w = max(w, 1)
        return warm * math.sqrt(w / max(s, w))
    done = min(max((s - w) / max(horizon - w, 1), 0.0), 1.0)
    if train.schedule == "linear":
        return warm * (1 - done)
    return warm * (1 + math.cos(math.pi * done)) / 2


def clip_factor(gradients: list[Tensor], clip: float) -> float:
    """min(1, clip / (norm + 1e-6)), the L2 norm over all trained parameters in double."""
    if clip == 0:
        return 1.0
    norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients))
    return min(1.0, clip / (norm + 1e-6))


class AdamW:
    def __init__(self, model: nn.Module, train: Train, horizon: int) -> None:
        self.train = train
        self.horizon = horizon
        self.s = 0
        self.decayed = decayed(model)
        self.trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.m = {n: torch.zeros_like(p) for n, p in self.trained.items()}
        self.v = {n: torch.zeros_like(p) for n, p in self.trained.items()}

    @torch.no_grad()
    def update(self) -> None:
        """One update from the gradients that `backward` left; clears them."""
        t = self.train
        self.s += 1
        lr = t.lr * schedule(t, self.s, self.horizon)
        factor = clip_factor([p.grad for p in self.trained.values()], t.clip)
        for name, p in self.trained.items():
            g = p.grad * factor
            if name in self.decayed:
                p -= lr * t.weight_decay * p
            self.m[name] = t.beta1 * self.m[name] + (1 - t.beta1) * g
            self.v[name] = t.beta2 * self.v[name] + (1 - t.beta2) * g * g
            m_hat = self.m[name] / (1 - t.beta1**self.s)
            v_hat = self.v[name] / (1 - t.beta2**self.s)
            p -= lr * m_hat / (v_hat.sqrt() + t.eps)
            p.grad = None
