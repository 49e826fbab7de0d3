# The words of this house, and CI's own steps. Each sets up .venv by itself when that is missing or
# out of date, from some Python >= 3.11 (PYTHON=… names one). `make` alone lists the words.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: look test lint bench docs campaign clean help

TEXT ?= The animal didn't cross the street because it was too tired
ARGS ?= --to look.html
# By way of the environment, for a text may hold quotes.
export TEXT

bin := .venv/bin
native := $(wildcard native/*.cpp native/*.h native/CMakeLists.txt)
benches := $(filter-out bench/_%.py bench/gpu.py,$(sort $(wildcard bench/*.py)))

look: .venv/ready  ## what a real model looks at while it reads TEXT="…": look.html (or ARGS="…")
	$(bin)/regard look "$$TEXT" $(ARGS)

test: .venv/ready  ## every test, and how much of the source they reach
	$(bin)/pytest -n 2 --dist worksteal --cov --cov-report term-missing

lint: .venv/ready  ## format, style, types and floors
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

bench: .venv/ready  ## every claim of speed, against the named peer
	for bench in $(benches); do echo "== $$bench"; $(bin)/python "$$bench"; done

docs: .venv/docs-ready  ## the documentation in English and Chinese: docs/_build/html
	$(bin)/sphinx-build -qWa --keep-going docs docs/_build/html/en
	$(bin)/sphinx-build -qWa --keep-going -D language=zh_CN docs docs/_build/html/zh
	@echo "docs/_build/html/en/index.html docs/_build/html/zh/index.html"

campaign: .venv/ready  ## what is too long for every run; its log is kept in campaigns/
	mkdir -p campaigns
	$(bin)/pytest -m campaign --hypothesis-profile campaign --no-header -v \
	  | tee "campaigns/$$(date -u +%Y-%m-%dT%H%MZ).log"

clean:  ## remove all that these words have made, .venv too
	rm -rf .venv .coverage* .*_cache .hypothesis docs/_build dist look.html
	git clean -fdXq native src/regard/core/engines
	find . -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*##/make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

.venv/ready: pyproject.toml constraints.txt models.txt scripts/setup.sh $(native)
	@scripts/setup.sh

.venv/docs-ready: .venv/ready
	@echo "set-up: installing the tools of the documentation …" >&2
	@$(bin)/python -m pip -qq install --constraint constraints.txt --group docs
	@touch $@
