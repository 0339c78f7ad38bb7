//! What the manager tells the program.

use glassnic_wire::cm::{IpHeader, Rej, RejReason, ServiceId, SidrStatus};

use crate::conn::ConnId;

/// Something happened to a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// Whose it is: what the program gave with the connection, or what the manager chose for one that came in.
    pub token: u64,
    /// The connection or question.
    pub conn: ConnId,
    /// What happened.
    pub what: What,
}

impl Event {
    /// Whether it brings a new connection or question, and is its listener's.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.what, What::Request { .. } | What::Query { .. })
    }
}

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum What {
    /// Somebody asks for a connection: accept or reject it. The event is the listener's; the new connection has its own token.
    Request {
        /// The new connection's token.
        child: u64,
        /// What was asked for.
        service: ServiceId,
        /// Addresses, where the service has them.
        ip: Option<IpHeader>,
        /// All of the private data, a header of addresses included.
        private_data: Box<[u8]>,
    },
    /// The other side accepts: get the QP ready and establish.
    Response {
        /// The program's bytes.
        private_data: Box<[u8]>,
    },
    /// The other side rejects, or takes back what it asked for.
    Rejected {
        /// Why.
        reason: RejReason,
        /// The whole message.
        message: Box<Rej>,
    },
    /// No answer came, and the manager gave up.
    Unreachable {
        /// Since when it tried, in nanoseconds.
        for_ns: u64,
        /// How often it sent the message.
        tries: u8,
    },
    /// Both sides are ready.
    Established,
    /// The other side ends the connection, or has agreed to.
    Disconnected {
        /// It did not answer.
        timed_out: bool,
    },
    /// Nothing of the connection can be on its way any more.
    TimeWaitExit,
    /// Somebody asks for the QP behind a datagram service. The event is the listener's.
    Query {
        /// The question's token.
        child: u64,
        /// What was asked for.
        service: ServiceId,
        /// Addresses, where the service has them.
        ip: Option<IpHeader>,
        /// All of the private data, a header of addresses included.
        private_data: Box<[u8]>,
    },
    /// The answer to such a question.
    Answer {
        /// Whether there is a QP.
        status: SidrStatus,
        /// Its number.
        qpn: u32,
        /// Its Q_Key.
        qkey: u32,
        /// The program's bytes.
        private_data: Box<[u8]>,
    },
}
