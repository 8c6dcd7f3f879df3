#!/bin/sh
# Generates the committed Go and Python code from proto/relay.proto. `make test` runs it and fails if the code changes.
set -eu

cd "$(dirname "$0")"
. ../protoc-tools.sh

mkdir -p go/gen
rm -f go/gen/*.pb.go
$protoc -I proto \
    --plugin=protoc-gen-go="$tools/bin/protoc-gen-go" \
    --plugin=protoc-gen-go-grpc="$tools/bin/protoc-gen-go-grpc" \
    --go_out=go --go_opt=module=relay.example \
    --go-grpc_out=go --go-grpc_opt=module=relay.example \
    relay.proto

rm -f python/relay_pb2*
$protoc -I proto --python_out=python --grpc_python_out=python relay.proto
