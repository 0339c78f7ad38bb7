//! Two network namespaces joined by a cable: RoCEv2 over UDP, IPv6.

mod common;

use glassnic_e2e::pair::{Case, Way};
use glassnic_e2e::place::{Cable, Family};
use glassnic_e2e::{for_each_program, slot};

fn run_case(case: &Case) {
    let _slot = slot::take();
    let cable = Cable::lay();
    Way::cable(&cable, Family::V6).run(case);
}

for_each_program!(make_tests);
