//! Two processes of one host that the user `nobody` runs: nothing but a user account is needed.

mod common;

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::Family;
use glassnic_e2e::{for_each_program, slot};

fn run_case(case: &Case) {
    let _slot = slot::take();
    let way = Way { user: Some("nobody"), ..Way::one_host(Gid::Of(Family::V4)) };
    way.run(case);
}

for_each_program!(make_tests);
