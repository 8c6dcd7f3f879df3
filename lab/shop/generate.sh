#!/bin/sh
# Writes the committed Go and Python code for proto/shop.proto anew:
#   go/gen/            python/shop/gen/
# The tools are pinned here and kept in a folder outside the source tree, so a
# drift check is: run this, then `git diff --exit-code -- go/gen python/shop/gen`.
#
# SHOP_TOOLS names that folder (default: out/shop/tools at the repository root).
set -eu

GRPCIO_TOOLS=1.85.1
PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

cd "$(dirname "$0")"
tools=${SHOP_TOOLS:-$(cd ../.. && pwd)/out/shop/tools}
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
