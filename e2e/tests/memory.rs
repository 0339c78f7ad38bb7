//! Memory windows, changed regions, null regions, device memory and paging on demand, in a C program.

use std::time::Duration;

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

fn every_case(link: &str) {
    let _slot = slot::take();
    let program = c_program::compile("memory");
    let run = Program::new([program.display().to_string()]).env("GLASSNIC_LINK", link);
    let finished = run.limit(Duration::from_secs(60)).run();
    assert!(finished.succeeded(), "{link}: {finished}");
}

#[test]
fn memory_is_served_and_guarded_in_one_process() {
    every_case("shm");
}

#[test]
fn memory_is_served_and_guarded_over_udp() {
    every_case("udp");
}
