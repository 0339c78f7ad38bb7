//! Completion queues, domains and events, from a C program that knows the man pages.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, product, slot};

#[test]
fn queues_domains_and_events_are_as_the_man_pages_say() {
    let _slot = slot::take();
    let program = c_program::compile("queues").display().to_string();
    let glassnic = product::glassnic().display().to_string();
    let finished = Program::new([program, glassnic]).run();
    assert!(finished.succeeded(), "{finished}");
}
