//! glassnic-nic
