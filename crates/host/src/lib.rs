//! Who owns threads, fds and memory? Segments, progress, the clock. Not written yet.
