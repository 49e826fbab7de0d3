#!/usr/bin/env bash
# After an edit of docs/*.md: brings the Chinese catalogues up to date. What is new in them has an
# empty msgstr, what changed is marked fuzzy; the Chinese build fails until both are mended.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent .venv/docs-ready

.venv/bin/sphinx-build -qE -b gettext docs docs/_build/gettext
# The docstrings stay English; lessons and mechanisms are written in both languages.
rm -r docs/_build/gettext/api.pot docs/_build/gettext/learn docs/_build/gettext/mechanisms
.venv/bin/sphinx-intl update --pot-dir docs/_build/gettext --locale-dir docs/locale \
  --language zh_CN --line-width 100
