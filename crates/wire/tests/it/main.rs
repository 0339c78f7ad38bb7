//! What the whole crate promises: on captured packets, on its one table, on any bytes.

mod captures;
mod cm;
mod common;
mod dissect;
mod opcodes;
mod properties;
