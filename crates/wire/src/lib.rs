//! glassnic-wire
