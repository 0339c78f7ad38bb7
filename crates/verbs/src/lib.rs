//! glassnic-verbs
