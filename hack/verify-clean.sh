#!/usr/bin/env bash
# Fails when the targets before it changed a tracked file or made a new one.
set -euo pipefail
cd "$(dirname "$0")/.."
changed=$(git status --porcelain -- api config go.mod go.sum '*.go')
[ -z "$changed" ] || {
  printf 'These files are not as "make generate" and "make fmt" leave them; commit the difference:\n%s\n' "$changed" >&2
  exit 1
}
