#!/bin/sh
# Builds the application in this folder: bin/, venv/, web/node_modules/.
set -eu
cd "$(dirname "$0")"
(cd shows && go build -o ../bin/shows .)
[ -e venv/bin/flask ] || { python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check -r seats/requirements.txt; }
[ -e web/node_modules/express ] || (cd web && npm ci --no-audit --no-fund --loglevel=error)
