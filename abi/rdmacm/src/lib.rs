//! glassnic-rdmacm
