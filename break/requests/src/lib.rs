//! Request faults: the fault language, what a fault matches, fault spaces.
