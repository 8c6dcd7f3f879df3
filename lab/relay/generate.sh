#!/bin/sh
# Writes the committed Go and Python code for proto/relay.proto anew. A drift check is: run this, then
# `git diff --exit-code -- go/gen python`. RELAY_TOOLS names the folder of the pinned tools.
set -eu

GRPCIO_TOOLS=1.85.1
PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

cd "$(dirname "$0")"
tools=${RELAY_TOOLS:-$(cd ../.. && pwd)/out/relay/tools}
stamp="$tools/versions-$GRPCIO_TOOLS-$PROTOC_GEN_GO-$PROTOC_GEN_GO_GRPC"

if [ ! -e "$stamp" ]; then
    mkdir -p "$tools"
    python3 -m venv "$tools/venv"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$GRPCIO_TOOLS"
    GOBIN="$tools/bin" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOC_GEN_GO"
    GOBIN="$tools/bin" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC"
    rm -f "$tools"/versions-*
    : > "$stamp"
fi

protoc="$tools/venv/bin/python -m grpc_tools.protoc"

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
