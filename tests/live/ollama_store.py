"""Put a GGUF file into a model store of Ollama's under a name, as `ollama create` would.

usage: ollama_store.py MODEL.gguf STORE NAME:TAG
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

TEMPLATE = "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n"
PARAMETERS = {"stop": ["<|im_start|>", "<|im_end|>"]}
CONFIG = {
    "model_format": "gguf",
    "model_family": "llama",
    "model_families": ["llama"],
    "model_type": "134.52M",
    "file_type": "F16",
    "architecture": "amd64",
    "os": "linux",
}
MEDIA = "application/vnd.ollama.image."


class Store:
    """Blobs by digest, and manifests by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "blobs").mkdir(parents=True, exist_ok=True)

    def blob(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        path = self._folder / "blobs" / f"sha256-{digest}"
        if not path.exists():
            path.write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def name(self, name: str, manifest: dict[str, Any]) -> None:
        model, _, tag = name.partition(":")
        folder = self._folder / "manifests/registry.ollama.ai/library" / model
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (tag or "latest")).write_text(json.dumps(manifest))


def add(gguf: Path, folder: Path, name: str, tail: bytes = b"") -> None:
    """`tail`: bytes behind the file's end, which llama.cpp ignores; they make other weights of the same model."""
    store = Store(folder)
    config = store.blob("application/vnd.docker.container.image.v1+json", json.dumps(CONFIG).encode())
    layers = [
        store.blob(f"{MEDIA}model", gguf.read_bytes() + tail),
        store.blob(f"{MEDIA}template", TEMPLATE.encode()),
        store.blob(f"{MEDIA}params", json.dumps(PARAMETERS).encode()),
    ]
    media = "application/vnd.docker.distribution.manifest.v2+json"
    store.name(name, {"schemaVersion": 2, "mediaType": media, "config": config, "layers": layers})


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    add(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
