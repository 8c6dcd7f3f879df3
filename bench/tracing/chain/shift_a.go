//go:build shift_a

package main

import "archive/tar"

func init() { shifted = append(shifted, (*tar.Reader).Next) }
