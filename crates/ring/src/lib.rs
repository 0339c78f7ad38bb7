//! glassnic-ring
