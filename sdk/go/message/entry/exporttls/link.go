// Package exporttls enables exports to https:// when it is imported. It is a package of its own because linking TLS
// slows down a program that does not use it (bench/README.md).
package exporttls

import "faultloom.dev/go/message/entry"

func init() { entry.EnableTLS() }
