#!/bin/sh
# Writes the committed Go and Python code for proto/chain.proto anew, into gen/ and python/. The tools are pinned here and
# kept outside the source tree; a drift check is: run this, then `git diff --exit-code -- gen python`.
#
# BENCH_TOOLS names their folder (default: out/bench/tools at the repository root).
set -eu

GRPCIO_TOOLS=1.85.1
PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

cd "$(dirname "$0")"
tools=${BENCH_TOOLS:-$(cd ../.. && pwd)/out/bench/tools}
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

mkdir -p gen
rm -f gen/*.pb.go
"$tools/venv/bin/python" -m grpc_tools.protoc -I proto \
    --plugin=protoc-gen-go="$tools/bin/protoc-gen-go" \
    --plugin=protoc-gen-go-grpc="$tools/bin/protoc-gen-go-grpc" \
    --go_out=. --go_opt=module=bench.example/tracing \
    --go-grpc_out=. --go-grpc_opt=module=bench.example/tracing \
    chain.proto

"$tools/venv/bin/python" -m grpc_tools.protoc -I proto --python_out=python --grpc_python_out=python chain.proto
