//! A C program that uses all of `glassnic.h`, and the benchmark of control verbs.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

#[test]
fn batches_pipelines_and_safe_modify_work_in_c() {
    let _slot = slot::take();
    let program = c_program::compile_with_extensions("batches");
    let finished = Program::new([program.display().to_string()]).run();
    assert!(finished.succeeded(), "{finished}");
    let believed = finished.stderr.lines().find(|line| line.contains("glassnic_safe_modify(QP "));
    let told = believed.is_some_and(|line| {
        line.contains("the caller believed the queue pair to be in INIT, but it is in RESET")
    });
    assert!(told, "{finished}");
}
