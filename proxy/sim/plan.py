"""What to embed: an engine's kind, its device and model, and its settings."""

from dataclasses import dataclass, field

from proxy.sim.cost import SECOND, Cost
from proxy.sim.devices import ADMISSION_STUDY, DEVICES, Device, Shape, cost_of, kv_blocks
from proxy.sim.machine import Limits, Machine
from proxy.sim.openai import Habits
from proxy.sim.shelf import MAX_QUEUE, Shelf
from proxy.sim.slots import Runner

DISK = 2e9
"""Bytes a second from disk into memory: a usual NVMe drive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that may be chosen. None: the engine's own default on this device."""

    kind: str = "vllm"
    """`vllm` or `ollama`."""
    device: str = "h100"
    """One of `DEVICES`, or `study`: the cost model of the admission study on an H100."""
    parameters: float = 8.03e9
    bits: float = 16
    models: tuple[str, ...] = ("llama-3.1-8b",)
    """Names of the models; vLLM serves the first."""
    seed: int = 0
    budget: int | None = None
    sequences: int | None = None
    long_prefill: int = 0
    block: int = 16
    blocks: int | None = None
    window: int = 131_072
    caching: bool = True
    slots: int = 1
    """Ollama: `OLLAMA_NUM_PARALLEL`."""
    loaded: int = 1
    """Ollama: models in memory at once."""
    max_queue: int = MAX_QUEUE
    load_s: float | None = None
    """Ollama: seconds to load a model."""
    speed: float = 1.0
    """Times as fast as the device is."""
    habits: Habits = field(default_factory=Habits)

    @property
    def shape(self) -> Shape:
        """The model."""
        return Shape(parameters=self.parameters, bits=self.bits)

    @property
    def hardware(self) -> Device:
        """The device."""
        return DEVICES["h100" if self.device == "study" else self.device]

    @property
    def cost(self) -> Cost:
        """The time of a step."""
        cost = ADMISSION_STUDY if self.device == "study" else cost_of(self.hardware, self.shape)
        return cost.faster(self.speed)


def vllm(plan: Plan) -> Machine:
    """vLLM by this plan; raises ValueError where the model does not fit the device."""
    limits = Limits(
        budget=plan.budget or plan.hardware.budget,
        sequences=plan.sequences or plan.hardware.sequences,
        block=plan.block,
        blocks=plan.blocks or kv_blocks(plan.hardware, plan.shape, plan.block),
        window=plan.window,
        long_prefill=plan.long_prefill,
        caching=plan.caching,
    )
    return Machine(limits, plan.cost, plan.seed)


def ollama(plan: Plan) -> Shelf:
    """Ollama by this plan."""
    load_s = plan.load_s if plan.load_s is not None else plan.shape.weight_bytes / DISK
    return Shelf(
        runner=lambda model: Runner(plan.slots, plan.cost, seed=plan.seed),
        load_ns=lambda model: round(load_s * SECOND / plan.speed),
        models=plan.loaded,
        max_queue=plan.max_queue,
    )
