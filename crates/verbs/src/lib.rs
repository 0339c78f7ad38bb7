//! The safe Rust front door. Not written yet.
