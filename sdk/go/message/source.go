// Package message holds the sources that faultloom-go places into the program it builds. Nothing else imports it.
package message

import "embed"

// Sources are the packages below this folder: wire, trust, export, exporttls, scope, status, httphook, grpchook,
// install and installgrpc.
//
//go:embed wire/*.go trust/*.go export/*.go exporttls/*.go scope/*.go status/*.go httphook/*.go grpchook/*.go install/*.go installgrpc/*.go
var Sources embed.FS
