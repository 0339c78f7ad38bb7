//! glassnic-ibverbs
