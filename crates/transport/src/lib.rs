//! glassnic-transport
