//! Programs that somebody else built, on GlassNIC: the harness of the tests in `tests/`.
//!
//! A test takes the [`slot`], runs a server and a client through `glassnic run` in some [`place`], and
//! fails with everything that they printed. The cases stand in one table ([`for_each_program`]), which
//! each file in `tests/` runs over another way: same host, forced UDP, namespaces, another user.

pub mod c_program;
pub mod capture;
pub mod device;
pub mod pair;
pub mod place;
pub mod process;
pub mod product;
pub mod rig;
pub mod slot;
mod table;

use std::sync::atomic::{AtomicU16, Ordering};

/// A TCP port that nobody listens on and that no other test of this process was given. Tests of other
/// processes wait for the [`slot`].
///
/// # Panics
/// When the whole range is taken.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(21000);
    for _ in 0..2000 {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if std::net::TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no free TCP port from 21000 on");
}
