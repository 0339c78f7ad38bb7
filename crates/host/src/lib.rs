//! glassnic-host
