//! glassnic-explain
