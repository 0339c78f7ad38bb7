//! Two processes of one host that may use nothing but UDP.

mod common;

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::Family;
use glassnic_e2e::{for_each_program, slot};

fn run_case(case: &Case) {
    let _slot = slot::take();
    let way = Way { environment: &[("GLASSNIC_LINK", "udp")], ..Way::one_host(Gid::Of(Family::V4)) };
    way.run(case);
}

for_each_program!(make_tests);
