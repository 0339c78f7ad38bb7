//! glassnic-events
