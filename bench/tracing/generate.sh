#!/bin/sh
# Generates the committed Go and Python code of proto/chain.proto in gen/ and python/. `make test` runs it and fails if
# the result differs.
set -eu

cd "$(dirname "$0")"
. ../../lab/protoc-tools.sh

mkdir -p gen
rm -f gen/*.pb.go
$protoc -I proto \
    --plugin=protoc-gen-go="$tools/bin/protoc-gen-go" \
    --plugin=protoc-gen-go-grpc="$tools/bin/protoc-gen-go-grpc" \
    --go_out=. --go_opt=module=bench.example/tracing \
    --go-grpc_out=. --go-grpc_opt=module=bench.example/tracing \
    chain.proto

$protoc -I proto --python_out=python --grpc_python_out=python chain.proto
