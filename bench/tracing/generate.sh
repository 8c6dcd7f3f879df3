#!/bin/sh
# Writes the committed Go and Python code for proto/chain.proto anew, into gen/ and python/; `make test` does so and refuses a
# difference.
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
