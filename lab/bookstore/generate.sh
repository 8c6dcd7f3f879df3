#!/bin/sh
# Regenerates the committed Go code for proto/bookstore.proto, in go/gen/. `make test` does so and refuses a difference.
set -eu

cd "$(dirname "$0")"
. ../protoc-tools.sh

mkdir -p go/gen
rm -f go/gen/*.pb.go
$protoc -I proto \
    --plugin=protoc-gen-go="$tools/bin/protoc-gen-go" \
    --plugin=protoc-gen-go-grpc="$tools/bin/protoc-gen-go-grpc" \
    --go_out=go --go_opt=module=bookstore.example \
    --go-grpc_out=go --go-grpc_opt=module=bookstore.example \
    bookstore.proto
