//! Two processes of one host, over whichever way GlassNIC chooses.

mod common;

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::Family;
use glassnic_e2e::{for_each_program, slot};

fn run_case(case: &Case) {
    let _slot = slot::take();
    Way::one_host(Gid::Of(Family::V4)).run(case);
}

for_each_program!(make_tests);
