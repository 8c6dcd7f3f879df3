//go:build shift_e

package main

import "debug/dwarf"

func init() { shifted = append(shifted, (*dwarf.Data).Reader) }
