//! What goes in and out of the manager: requests of the program, messages, and what the program does not see.

use std::net::IpAddr;

use glassnic_wire::cm::{Mad, ServiceId};

use crate::conn::{Path, State, Terms};

/// A message to be sent from QP 1 of our port to QP 1 of another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Transmit {
    /// Our port.
    pub sgid: [u8; 16],
    /// The other.
    pub dgid: [u8; 16],
    /// Traffic class of the path.
    pub traffic_class: u8,
    /// Hop limit of the path.
    pub hop_limit: u8,
    /// What to send.
    pub mad: Mad,
}

/// A connection that the program asks for.
#[derive(Clone, Copy, Debug)]
pub struct Connect {
    /// Who gets its events.
    pub token: u64,
    /// What is asked for.
    pub service: ServiceId,
    /// The way there.
    pub path: Path,
    /// GUID of our device.
    pub guid: u64,
    /// Our side of the terms.
    pub terms: Terms,
    /// Our QP takes its receives from an SRQ.
    pub srq: bool,
    /// Private data, with the header of addresses where the service has one.
    pub private_data: [u8; 92],
}

/// What the program accepts a connection with.
#[derive(Clone, Copy, Debug)]
pub struct Accept {
    /// Our QP.
    pub qpn: u32,
    /// The first PSN that we send.
    pub psn: u32,
    /// GUID of our device.
    pub guid: u64,
    /// Reads and atomics that we have on their way at a time.
    pub initiator_depth: u8,
    /// Reads and atomics that we take at a time.
    pub responder_resources: u8,
    /// `rnr_retry` of the other QP.
    pub rnr_retry_count: u8,
    /// Our QP has end-to-end flow control.
    pub flow_control: bool,
    /// Our QP takes its receives from an SRQ.
    pub srq: bool,
    /// The program's bytes.
    pub private_data: [u8; 196],
}

/// A service that the program offers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Listen {
    /// Which.
    pub service: ServiceId,
    /// At which address; the unspecified one is all of its family, and that of IPv6 all of IPv4 as well.
    pub address: IpAddr,
    /// The unspecified address of IPv6 is of IPv6 alone.
    pub v6_only: bool,
    /// How many requests may wait for the program.
    pub backlog: u32,
}

impl Listen {
    /// Whether a request for this address is for it.
    #[must_use]
    pub fn takes(&self, service: ServiceId, address: IpAddr) -> bool {
        let any = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V6(_)) => own.is_unspecified(),
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.v6_only,
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        };
        self.service == service && (any || self.address == address)
    }
}

/// The connection is not where the call could do anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrongState(pub State);

/// Why a message led to nothing: for whoever explains what the program does not see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// Nobody listens for the service: a REJ went back.
    NoListener(ServiceId),
    /// As many requests as the listener's backlog wait for the program: nothing went back, and the other side will ask again.
    BacklogFull {
        /// The service.
        service: ServiceId,
        /// How many may wait.
        backlog: u32,
    },
    /// The other QP belongs to a connection that is not over yet: a REJ went back.
    Stale {
        /// The other QP.
        qpn: u32,
        /// How long that connection stays in TIMEWAIT, in nanoseconds; 0 if it is not there.
        for_ns: u64,
    },
}
