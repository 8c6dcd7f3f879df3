package main

// shifted holds functions that are linked and never run. What they belong to moves the other packages of the program: with
// each subset of the tags shift_a to shift_e these lie elsewhere, which alone makes a service some percent faster or slower.
var shifted []any
