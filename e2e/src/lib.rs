//! Programs that somebody else built, on GlassNIC: the harness.
