//go:build shift_d

package main

import "go/scanner"

func init() { shifted = append(shifted, (*scanner.Scanner).Scan) }
