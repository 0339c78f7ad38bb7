//! What the man pages of `ibv_*` promise, in C programs.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

fn every_case(name: &str) {
    let _slot = slot::take();
    let finished = Program::new([c_program::compile(name).display().to_string()]).run();
    assert!(finished.succeeded(), "{finished}");
}

#[test]
fn return_values_errno_and_what_is_written_back() {
    every_case("manpages");
}

#[test]
fn objects_that_are_not_there_are_refused_by_every_verb() {
    every_case("handles");
}

#[test]
fn a_path_is_loaded_armed_and_taken() {
    every_case("migration");
}
