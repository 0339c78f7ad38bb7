//! glassnic-sim
