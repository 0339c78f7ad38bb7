//! Faults that other software devices had, in a C program (`docs/faults.md`).

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

#[test]
fn one_process_is_free_of_them_on_each_link() {
    let _slot = slot::take();
    let program = c_program::compile("faults").display().to_string();
    for link in ["shm", "udp"] {
        let finished = Program::new([program.clone()]).env("GLASSNIC_LINK", link).run();
        assert!(finished.succeeded(), "{link}: {finished}");
    }
}
