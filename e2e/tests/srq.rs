//! A C program that uses shared receive queues.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

#[test]
fn shared_receive_queues_work_in_c() {
    let _slot = slot::take();
    let program = c_program::compile("srq");
    let finished = Program::new([program.display().to_string()]).run();
    assert!(finished.succeeded(), "{finished}");
}
