#!/usr/bin/env bash
# Resolves pyproject.toml's ranges into cpu.lock and gpu.lock (exact pins, Linux, Python 3.11). Needs `uv` on PATH.
# Run it after changing a dependency; commit the two locks. Install with `pip install --no-deps -r LOCK`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
command -v uv >/dev/null || { echo "refresh.sh: uv is not on PATH; 'pip install uv' first" >&2; exit 2; }

compile() {  # NAME OVERRIDE...
  local name=$1; shift
  local overrides=()
  for file in "$@"; do overrides+=(--override "$here/$file"); done
  uv pip compile "$root/pyproject.toml" --extra "$name" --extra embedded --extra dev \
    --universal --python-version 3.11 --no-annotate --no-header --quiet "${overrides[@]}" |
    # every pin is for Linux on x86-64 and aarch64; keep a marker only where a pin is for one of the two
    sed -E "/aarch64/ s/ ;.*x86_64.*//; s/ ;.*aarch64.*/ ; platform_machine == 'aarch64'/; s/ ;.*x86_64.*/ ; platform_machine == 'x86_64'/" \
    > "$here/$name.lock.new"
  mv "$here/$name.lock.new" "$here/$name.lock"
  echo "$name.lock: $(wc -l < "$here/$name.lock") pins"
}

compile cpu overrides.txt overrides-cpu.txt
sed -i 's/^torch==\(.*\)$/torch==\1+cpu/' "$here/cpu.lock"
compile gpu overrides.txt
