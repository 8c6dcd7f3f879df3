# For the generate.sh files, by `.`: the pinned tools that write Go and Python code for .proto files.
#
# Sets `tools`, their folder outside the source tree (PROTOC_TOOLS, default: out/protoc at the repository root), and
# `protoc`. Installs them when they are not there.

GRPCIO_TOOLS=1.85.1
PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

tools=${PROTOC_TOOLS:-$(git rev-parse --show-toplevel)/out/protoc}
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
