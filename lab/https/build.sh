#!/bin/sh
# Makes certificates and builds the services in this folder: certs/, bin/, venv/.
set -eu
cd "$(dirname "$0")"
./certificates.sh
(cd prices && go build -o ../bin/prices .)
[ -e venv/bin/flask ] || { python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check -r stock/requirements.txt; }
