#!/bin/sh
# An authority, and the certificates that it signs, in certs/.
set -eu
cd "$(dirname "$0")"
[ -e certs/client.pem ] && exit 0
umask 077
mkdir -p certs
cd certs

# NAME SUBJECT-ALTERNATIVE-NAMES NOT-AFTER
sign() {
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "/CN=$1" -out "$1.csr" 2>/dev/null
  printf 'subjectAltName = %s\n' "$2" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$3" -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/CN=shop authority" -keyout ca.key -out ca.pem 2>/dev/null
sign server 'DNS:localhost, IP:127.0.0.1' 365
sign other-name 'DNS:shop.example' 365
sign expired 'DNS:localhost, IP:127.0.0.1' -1
sign client 'DNS:client' 365
