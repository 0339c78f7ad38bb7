//! glassnic-link
