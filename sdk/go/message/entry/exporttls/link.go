// Package exporttls lets histories be exported to https:// by being imported. It is apart because a program that never
// speaks TLS is slower with it than without (bench/README.md).
package exporttls

import "faultloom.dev/go/message/entry"

func init() { entry.EnableTLS() }
