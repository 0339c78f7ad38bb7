//! A C program that uses the library wrongly, and expects the errno that Linux answers.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

#[test]
fn wrong_use_is_refused_with_the_errno_of_linux_and_never_crashes() {
    let _slot = slot::take();
    let program = c_program::compile("wrong_use");
    let finished = Program::new([program.display().to_string()]).run();
    assert!(finished.succeeded(), "{finished}");
}
