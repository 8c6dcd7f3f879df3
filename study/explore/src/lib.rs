//! Sweeps: run a fault space, judge every case, reduce the failures to bugs.
