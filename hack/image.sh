#!/usr/bin/env bash
# image.sh NAME:TAG ARCHIVE.tar [PACKAGE]: builds a static binary and packs it as an image, without a container engine.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=$1 archive=$2 package=${3:-./cmd/retryqueue}
mkdir -p "$(dirname "$archive")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0
go build -ldflags "-s -w -X main.version=${VERSION:-dev}" -o "$work/$(basename "$package")" "$package"
go run ./hack/cluster/cmd/image -tag "$tag" -user 65532 -o "$archive" "$work/$(basename "$package")"
