//! Queue pairs that do nothing: what they cost, and that both forms of their struct work.

use glassnic_e2e::process::Program;
use glassnic_e2e::{c_program, slot};

#[test]
fn an_idle_queue_pair_is_small_and_whole_in_c() {
    let _slot = slot::take();
    let program = c_program::compile("idle");
    let finished = Program::new([program.display().to_string()]).run();
    assert!(finished.succeeded(), "{finished}");
}
