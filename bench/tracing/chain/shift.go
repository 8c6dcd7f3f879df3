package main

// shifted holds functions that are linked but never run. Their packages change the addresses of the other packages in
// the binary, differently for each subset of the tags shift_a to shift_e. This alone makes a service some percent
// faster or slower.
var shifted []any
