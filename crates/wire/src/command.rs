//! The command record.
