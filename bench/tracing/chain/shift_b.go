//go:build shift_b

package main

import "index/suffixarray"

func init() { shifted = append(shifted, suffixarray.New) }
