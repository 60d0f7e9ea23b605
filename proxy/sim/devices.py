"""Devices and model shapes, and the cost of a step that follows from a pair of them.

A device preset has no overhead of its own: one short stream runs at the ceiling, bandwidth over weight bytes. Peaks
are the vendors' for dense 16-bit arithmetic.
"""

from dataclasses import dataclass

from proxy.sim.cost import Cost

EFFICIENCY = 0.5
"""Share of peak arithmetic that serving reaches: published prefill rates of 8B models lie at .4 to .6 of peak."""

KV_SHARE = 0.92
"""Share of memory that the engine may use, as vLLM's `--gpu-memory-utilization` has it by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a model matters for time and memory."""

    parameters: float
    bits: float = 16
    """Bits a weight."""
    layers: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    heads: int = 32
    kv_bits: float = 16

    @property
    def weight_bytes(self) -> float:
        """All weights."""
        return self.parameters * self.bits / 8

    @property
    def kv_bytes(self) -> float:
        """KV memory of one token: a key and a value per layer and KV head."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.kv_bits / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator, or a CPU with its memory."""

    name: str
    bandwidth: float
    """Bytes a second from its memory."""
    flops: float
    """Dense 16-bit operations a second, at peak."""
    memory: float
    """Bytes."""
    budget: int = 2048
    """vLLM's default `max_num_batched_tokens` here."""
    sequences: int = 256
    """vLLM's default `max_num_seqs` here."""


LLAMA_8B = Shape(parameters=8.03e9)

DEVICES = {
    "cpu": Device(
        name="CPU, dual-channel DDR5-5600", bandwidth=90e9, flops=2e12, memory=64e9, budget=2048, sequences=128
    ),
    "a10g": Device(name="NVIDIA A10G", bandwidth=600e9, flops=70e12, memory=24e9),
    "l40s": Device(name="NVIDIA L40S", bandwidth=864e9, flops=362e12, memory=48e9),
    "rtx4090": Device(name="NVIDIA RTX 4090", bandwidth=1008e9, flops=165e12, memory=24e9),
    "a100": Device(name="NVIDIA A100 80GB SXM", bandwidth=2039e9, flops=312e12, memory=80e9),
    "h100": Device(name="NVIDIA H100 SXM", bandwidth=3350e9, flops=989e12, memory=80e9, budget=8192, sequences=1024),
}

ADMISSION_STUDY = Cost(
    fixed_s=2.5e-3,
    weights_s=7e-3,
    token_s=32e-6,
    attention_s=1.3e-9,
    context_s=5.5e-8,
    sequence_s=8e-6,
    noise=0.03,
)
"""An 8B model on an H100 with everything a real one loses: the model behind the published admission figures."""


def cost_of(device: Device, shape: Shape = LLAMA_8B) -> Cost:
    """The roofline of this model on this device."""
    effective = device.flops * EFFICIENCY
    return Cost(
        weights_s=shape.weight_bytes / device.bandwidth,
        token_s=2 * shape.parameters / effective,
        attention_s=4 * shape.layers * shape.heads * shape.head_dim / effective,
        context_s=shape.kv_bytes / device.bandwidth,
    )


def kv_blocks(device: Device, shape: Shape = LLAMA_8B, block: int = 16) -> int:
    """Blocks of KV memory beside the weights; raises ValueError where the model does not fit."""
    left = device.memory * KV_SHARE - shape.weight_bytes
    if left < shape.kv_bytes * block:
        raise ValueError(f"{shape.weight_bytes / 1e9:.1f} GB of weights leave no room on {device.name}")
    return int(left // (shape.kv_bytes * block))
