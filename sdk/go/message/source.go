// Package message embeds the SDK's sources, which faultloom-go adds to the program it builds. Nothing else imports it.
package message

import "embed"

// Sources are the files of the packages below this folder.
//
//go:embed wire/*.go trust/*.go scope/*.go entry/*.go entry/*/*.go hooks/*/*.go
var Sources embed.FS
