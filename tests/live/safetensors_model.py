"""Turn a llama-like GGUF file into a folder that vLLM can serve offline.

usage: safetensors_model.py MODEL.gguf OUT_FOLDER
"""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def split_digits(tokenizer: Path) -> None:
    """SmolLM2 makes each digit a token; reading its tokenizer out of GGUF loses that rule."""
    spec = json.loads(tokenizer.read_text())
    if spec["pre_tokenizer"]["type"] == "ByteLevel":
        digits = {"type": "Digits", "individual_digits": True}
        spec["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, spec["pre_tokenizer"]]}
        tokenizer.write_text(json.dumps(spec, ensure_ascii=False))


def main(gguf: Path, out: Path) -> None:
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    # Weights out of GGUF stay in its form, which cannot be saved, unless they are unpacked on the way.
    unpacked = GgufConfig(dequantize=True, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16, quantization_config=unpacked)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(**source).save_pretrained(out)
    split_digits(out / "tokenizer.json")


main(Path(sys.argv[1]), Path(sys.argv[2]))
