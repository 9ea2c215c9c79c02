#!/usr/bin/env bash
# Makes colbert_vectors.npz anew with colbert-ai 0.2.22 under transformers 4.49, in an environment of its own: colbert-ai
# cannot load a model under the transformers 5 that Tartan runs on. Needs `make setup` before. About 2 GB in $WORK.
#   tests/golden/make_colbert_golden.sh [WORK, a scratch folder; removed afterwards unless it existed before]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
work=${1:-}
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
elif [ ! -d "$work" ]; then
  mkdir -p "$work"
  trap 'rm -rf "$work"' EXIT
fi
checkpoint=$(cd "$root" && .venv/bin/python -c 'from pipeline.models.embedded import prepare; print(prepare("minilm-colbert", verify=True))')
test -x "$work/venv/bin/python" || "${PYTHON:-python3.11}" -m venv "$work/venv"
pip() { "$work/venv/bin/pip" install --quiet "$@"; }
# torch's CPU build: from where pip finds it, else from PyTorch's own index.
pip torch==2.13.0+cpu || pip --index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu
pip colbert-ai==0.2.22 transformers==4.49.0 faiss-cpu==1.15.1 numpy==2.3.5
HF_HUB_OFFLINE=1 "$work/venv/bin/python" "$here/make_colbert_golden.py" "$checkpoint"
