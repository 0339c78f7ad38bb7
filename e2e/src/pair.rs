//! A server and a client that must both succeed.

use std::net::IpAddr;
use std::time::Duration;

use crate::device::Device;
use crate::free_port;
use crate::place::{Cable, Family, Place};
use crate::process::{Finished, Program, Running};

/// One row of the table of cases.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The stock program, of rdma-core's examples or of perftest.
    pub program: &'static str,
    /// Its options, the same at both ends. `@mtu` stands for the port's path MTU in bytes.
    pub options: &'static [&'static str],
}

impl Case {
    /// The program with its options, a GID index and a TCP port.
    pub fn program(&self, gid_index: Option<u32>, active_mtu: u32, port: u16) -> Program {
        let mut words = vec![self.program.to_owned(), "-p".into(), port.to_string()];
        let is_perftest = self.program.starts_with("ib_");
        if is_perftest {
            // -F: no word about the CPU's clock.
            words.push("-F".into());
        }
        if let Some(index) = gid_index {
            words.extend([if is_perftest { "-x" } else { "-g" }.into(), index.to_string()]);
        }
        words.extend(self.options.iter().map(|option| option.replace("@mtu", &active_mtu.to_string())));
        Program::new(words)
    }
}

/// How the two ends of a pair reach each other.
#[derive(Debug)]
pub struct Way<'a> {
    /// Where the server runs.
    pub server: &'a Place,
    /// Where the client runs.
    pub client: &'a Place,
    /// Where the client finds the server's TCP port. Stock programs listen on IPv4.
    pub address: IpAddr,
    /// Which GID both use.
    pub gid: Gid,
    /// Variables for both.
    pub environment: &'a [(&'a str, &'a str)],
    /// Who runs both.
    pub user: Option<&'static str>,
}

/// Which GID a program is told to use.
#[derive(Clone, Copy, Debug)]
pub enum Gid {
    /// None at all.
    Unset,
    /// This index at both ends.
    Index(u32),
    /// The one of an address family.
    Of(Family),
}

impl Way<'_> {
    /// Two processes of this host.
    pub fn one_host(gid: Gid) -> Self {
        Self {
            server: &Place::Here,
            client: &Place::Here,
            address: IpAddr::from([127, 0, 0, 1]),
            gid,
            environment: &[],
            user: None,
        }
    }

    /// The two ends of a cable.
    pub fn cable(cable: &Cable, family: Family) -> Way<'_> {
        let [server, client] = &cable.ends;
        Way {
            server: &server.place,
            client: &client.place,
            address: server.ipv4.into(),
            gid: Gid::Of(family),
            environment: &[],
            user: None,
        }
    }

    /// Server and client of a case, not started, and the server's TCP port.
    pub fn programs(&self, case: &Case) -> (Program, Program, u16) {
        let port = free_port();
        let at = |place: &Place| {
            let device = Device::query(place, self.environment);
            let index = match self.gid {
                Gid::Unset => None,
                Gid::Index(index) => Some(index),
                Gid::Of(family) => Some(device.gid_index(family)),
            };
            let mut program = case.program(index, device.active_mtu, port).at(place).as_user(self.user);
            for (name, value) in self.environment {
                program = program.env(name, value);
            }
            program
        };
        (at(self.server), at(self.client).args([self.address.to_string()]), port)
    }

    /// Starts a case: server, then client once the server listens.
    ///
    /// # Panics
    /// When the server does not come to listen.
    pub fn start(&self, case: &Case) -> Pair {
        let (server, client, port) = self.programs(case);
        let mut server = server.start();
        if let Err(why) = server.wait_listening(port) {
            server.signal(rustix::process::Signal::KILL);
            panic!("{why}\n{}", server.wait());
        }
        Pair { server, client: client.start(), port }
    }

    /// Runs a case to its end.
    ///
    /// # Panics
    /// When either side does not end with status 0.
    pub fn run(&self, case: &Case) -> Outcome {
        let outcome = self.start(case).wait();
        outcome.assert_both_succeed();
        outcome
    }
}

/// A running server and client.
#[derive(Debug)]
pub struct Pair {
    /// The server.
    pub server: Running,
    /// The client.
    pub client: Running,
    /// The server's TCP port.
    pub port: u16,
}

impl Pair {
    /// Waits for both. A server without its client gets a few seconds only.
    pub fn wait(self) -> Outcome {
        let client = self.client.wait();
        let mut server = self.server;
        if !client.succeeded() {
            server.limit_from_now(Duration::from_secs(3));
        }
        Outcome { client, server: server.wait() }
    }
}

/// What became of both sides.
#[derive(Debug)]
pub struct Outcome {
    /// The server.
    pub server: Finished,
    /// The client.
    pub client: Finished,
}

impl Outcome {
    /// Panics with all that both printed unless both ended with status 0.
    ///
    /// # Panics
    /// See above.
    pub fn assert_both_succeed(&self) {
        assert!(
            self.server.succeeded() && self.client.succeeded(),
            "server and client must both end with status 0\nserver {}client {}",
            self.server,
            self.client
        );
    }
}
