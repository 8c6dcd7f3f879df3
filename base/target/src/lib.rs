//! The application under study: its target file, its services as processes.
