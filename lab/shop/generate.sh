#!/bin/sh
# Regenerates the committed Go and Python code for proto/shop.proto:
#   go/gen/            python/shop/gen/
# `make test` does so and refuses a difference.
set -eu

cd "$(dirname "$0")"
. ../protoc-tools.sh

mkdir -p go/gen
rm -f go/gen/*.pb.go
$protoc -I proto \
    --plugin=protoc-gen-go="$tools/bin/protoc-gen-go" \
    --plugin=protoc-gen-go-grpc="$tools/bin/protoc-gen-go-grpc" \
    --go_out=go --go_opt=module=shop.example \
    --go-grpc_out=go --go-grpc_opt=module=shop.example \
    shop.proto

# The mapping shop/gen=proto makes the Python modules import each other as
# shop.gen.*, wherever the interpreter was started.
mkdir -p python/shop/gen
rm -f python/shop/gen/shop_pb2*
$protoc -I shop/gen=proto \
    --python_out=python --pyi_out=python --grpc_python_out=python \
    shop/gen/shop.proto
