//! What is the device? QP-context memory, object tables, work queues, doorbells, limits. Not written yet.
#![forbid(unsafe_code)]
