//! What happens inside a device, in the order in which it happens.

use crate::name::Call;
use crate::qp::QpState;
use crate::rule::Refusal;
use crate::work::{AsyncEventType, WcStatus, WrOpcode};

/// One thing that happened. The time is given beside it, see [`EventSink::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The device carried out a command.
    CommandExecuted {
        /// The call behind the command.
        call: Call,
        /// The queue pair, if the command is about one.
        qpn: Option<u32>,
        /// The command's event sequence number.
        sequence: u32,
        /// Time from doorbell to status, in nanoseconds.
        took_ns: u64,
    },
    /// A call was turned down.
    Refused(Refusal),
    /// A queue pair changed its state.
    StateMoved {
        /// The queue pair.
        qpn: u32,
        /// Where it was.
        from: QpState,
        /// Where it is.
        to: QpState,
        /// Who moved it.
        cause: Cause,
        /// The request that failed, where one did.
        wr_id: Option<u64>,
    },
    /// The first request was posted to a queue since the queue pair left RESET.
    FirstPost {
        /// The queue pair.
        qpn: u32,
        /// Send queue (true) or receive queue (false).
        send: bool,
        /// The operation, for sends.
        opcode: Option<WrOpcode>,
    },
    /// The first packet for a queue pair was accepted since it left RESET.
    FirstPacket {
        /// The queue pair.
        qpn: u32,
        /// The sender's queue pair, where it is known.
        from_qpn: Option<u32>,
        /// The packet's sequence number.
        psn: u32,
    },
    /// The first packet since the queue pair left RESET, a request or an answer, is handed to the link.
    FirstPacketSent {
        /// The queue pair.
        qpn: u32,
        /// The queue pair that it is for.
        to_qpn: u32,
        /// The packet's opcode, as in the BTH.
        opcode: u8,
        /// The packet's sequence number.
        psn: u32,
    },
    /// We told the peer that its request cannot be served.
    NakSent {
        /// The queue pair.
        qpn: u32,
        /// The sequence number answered.
        psn: u32,
        /// What we said.
        code: NakCode,
        /// Which check failed.
        check: Check,
    },
    /// The peer told us that a request cannot be served.
    NakReceived {
        /// The queue pair.
        qpn: u32,
        /// The sequence number answered.
        psn: u32,
        /// What it said.
        code: NakCode,
    },
    /// We asked the peer to wait: no receive is posted.
    RnrNakSent {
        /// The queue pair.
        qpn: u32,
        /// The sequence number answered.
        psn: u32,
        /// How long it shall wait, in nanoseconds.
        delay_ns: u64,
    },
    /// The peer asked us to wait.
    RnrNakReceived {
        /// The queue pair.
        qpn: u32,
        /// The sequence number answered.
        psn: u32,
        /// How long we shall wait, in nanoseconds.
        delay_ns: u64,
        /// Tries left; `None` means without end (`rnr_retry` is 7).
        retry_left: Option<u8>,
    },
    /// No acknowledgement came in time; the requester starts again at `psn`.
    Timeout {
        /// The queue pair.
        qpn: u32,
        /// The oldest sequence number without an answer.
        psn: u32,
        /// Tries left; 0 means that the request now fails.
        retry_left: u8,
    },
    /// Requests are sent again because of a NAK for a gap, or an answer that was lost.
    Retransmit {
        /// The queue pair.
        qpn: u32,
        /// The first sequence number sent again.
        psn: u32,
    },
    /// A work request ended with an error.
    CompletionError {
        /// The queue pair.
        qpn: u32,
        /// The program's name for the request.
        wr_id: u64,
        /// The status that the program sees.
        status: WcStatus,
        /// What lies behind it.
        check: Check,
    },
    /// The queue pair met its first error since it left RESET. What follows (flushes, above all) follows from it.
    FirstError {
        /// The queue pair.
        qpn: u32,
        /// The cause.
        cause: FirstCause,
    },
    /// An asynchronous event was queued for the program.
    Async {
        /// The event.
        event: AsyncEventType,
        /// Number of the queue pair, completion queue, shared receive queue or port that it is about.
        subject: u32,
        /// The queue pair that brought it about.
        qpn: Option<u32>,
    },
    /// A packet was thrown away.
    PacketDropped {
        /// The queue pair that it was for, if it could be read.
        qpn: Option<u32>,
        /// Its sequence number, if it could be read.
        psn: Option<u32>,
        /// Why.
        reason: DropReason,
    },
}

/// Takes events as they happen. Called on the packet path: do little.
pub trait EventSink {
    /// One event; `now_ns` is the time given to the engine, in nanoseconds of whatever clock its caller keeps.
    fn event(&mut self, now_ns: u64, event: &Event);
}

/// A sink that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl EventSink for NoSink {
    fn event(&mut self, _now_ns: u64, _event: &Event) {}
}

impl EventSink for Vec<(u64, Event)> {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.push((now_ns, *event));
    }
}

impl<S: EventSink + ?Sized> EventSink for &mut S {
    fn event(&mut self, now_ns: u64, event: &Event) {
        (**self).event(now_ns, event);
    }
}

/// What a queue pair remembers about its first error, from RESET on. The time stands beside it where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirstCause {
    /// The request that failed, if the error belongs to one of ours.
    pub wr_id: Option<u64>,
    /// The packet sequence number at which it failed, if it belongs to a packet.
    pub psn: Option<u32>,
    /// The status it got, or would get.
    pub status: WcStatus,
    /// The check that failed.
    pub check: Check,
}

named_enum! {
    /// Who or what moved a queue pair to another state.
    pub enum Cause {
        /// The program called `ibv_modify_qp(3)`.
        Modify = 1 "modified by the program",
        /// A request of its own failed.
        RequesterError = 2 "a send request failed",
        /// An incoming request failed.
        ResponderError = 3 "an incoming request failed",
        /// Its completion queue overran.
        CqOverrun = 4 "its completion queue overran",
        /// The send queue finished draining.
        Drained = 5 "the send queue is drained",
        /// The connection manager moved it.
        ConnectionManager = 6 "moved by the connection manager",
        /// The device stopped.
        DeviceFatal = 7 "the device stopped",
        /// The owner of the queue pair died.
        OwnerDied = 8 "its process died",
        /// Somebody asked for it with `glassnic event`.
        Provoked = 9 "provoked by glassnic event",
    }
}

named_enum! {
    /// Code of a negative acknowledgement: the low five bits of the AETH syndrome. IBA volume 1, table 46.
    pub enum NakCode {
        /// A packet is missing before this one.
        PsnSequence = 0 "PSN sequence error",
        /// The request makes no sense here.
        InvalidRequest = 1 "invalid request",
        /// The key, address, length or right is wrong.
        RemoteAccess = 2 "remote access error",
        /// The responder cannot complete it.
        RemoteOperational = 3 "remote operational error",
        /// Reliable datagram only.
        InvalidRdRequest = 4 "invalid RD request",
    }
}

named_enum! {
    /// The single check that failed. A completion status names a class; this names the culprit.
    pub enum Check {
        /// Nothing failed.
        None = 0 "no check failed",

        /// The lkey names no region or window.
        LkeyUnknown = 1 "lkey names no memory region",
        /// The region belongs to another protection domain than the queue pair.
        LkeyPd = 2 "lkey belongs to another PD",
        /// The entry reaches outside its region.
        LkeyBounds = 3 "buffer reaches outside the lkey's region",
        /// The region does not permit local writing.
        LkeyAccess = 4 "the lkey's region has no IBV_ACCESS_LOCAL_WRITE",
        /// The region's memory has gone.
        MemoryGone = 5 "the memory is no longer mapped",

        /// The rkey names no region or window.
        RkeyUnknown = 16 "rkey names no memory region",
        /// The region belongs to another protection domain than the responding queue pair.
        RkeyPd = 17 "rkey belongs to another PD",
        /// The access reaches outside the region.
        RkeyBounds = 18 "access reaches outside the rkey's region",
        /// The region does not permit this kind of remote access.
        RkeyAccess = 19 "the rkey's region does not permit this access",
        /// The queue pair's `qp_access_flags` do not permit this kind of remote access.
        QpAccess = 20 "the responder's qp_access_flags do not permit this access",
        /// The window is bound to another queue pair.
        MwOtherQp = 21 "the memory window is bound to another QP",
        /// The window is not bound.
        MwUnbound = 22 "the memory window is not bound",
        /// The address of an atomic is not a multiple of eight.
        AtomicUnaligned = 23 "atomic on an address that is not a multiple of 8",
        /// The rkey was invalidated, or its region deregistered, since it was given out.
        RkeyInvalidated = 25 "the rkey was invalidated, or its region deregistered",
        /// The key cannot be invalidated by the peer.
        InvalidateRefused = 24 "the key cannot be invalidated remotely",

        /// The message is longer than the posted receive.
        ReceiveTooSmall = 32 "the posted receive is smaller than the message",
        /// No receive is posted.
        NoReceive = 33 "no receive is posted",
        /// More reads and atomics at once than `max_dest_rd_atomic`.
        TooManyReads = 34 "more outstanding reads or atomics than max_dest_rd_atomic",
        /// The opcode does not follow the one before (a middle without a first, and the like).
        OpcodeSequence = 35 "the packet's opcode does not follow the one before",
        /// The opcode does not belong to the service or is unknown.
        OpcodeUnsupported = 36 "the opcode is not served by this QP",
        /// The payload has not the length that the opcode, the header or the path MTU demands.
        PacketLength = 37 "the packet's length does not fit its opcode, header or path MTU",
        /// The message is longer than 2^31 bytes, or than the MTU on UD.
        MessageTooLong = 38 "the message is longer than the service can carry",
        /// The shared receive queue of an XRC target does not exist.
        SrqUnknown = 39 "the SRQ number names no XRC SRQ",
        /// The responder has no resources.
        NoResources = 40 "the responder is out of resources",

        /// No acknowledgement, and the tries are used up.
        RetryExhausted = 48 "no acknowledgement within the retries",
        /// The peer was not ready, and the tries are used up.
        RnrExhausted = 49 "receiver not ready within rnr_retry",
        /// The peer answered "invalid request".
        NakInvalidRequest = 50 "the peer answered: invalid request",
        /// The peer answered "remote access error".
        NakRemoteAccess = 51 "the peer answered: remote access error",
        /// The peer answered "remote operational error".
        NakRemoteOperational = 52 "the peer answered: remote operational error",
        /// A response came that answers no request, or has the wrong form.
        BadResponse = 53 "the response does not fit the request",
        /// The address handle is gone or of another protection domain.
        BadAh = 54 "the address handle is not usable",
        /// A memory window could not be bound.
        MwBind = 55 "the memory window cannot be bound this way",
        /// The region does not permit binding windows to it.
        MwBindRight = 58 "the window's region has no IBV_ACCESS_MW_BIND",
        /// A window cannot let peers change what its owner may not.
        MwBindLocalWrite = 59 "the window permits remote writing, its region no local writing",
        /// The window, its region and the queue pair are not of one protection domain.
        MwBindPd = 60 "the window, its region and the QP are not of one PD",
        /// The window would reach outside its region.
        MwBindBounds = 61 "the window reaches outside its region",
        /// A window of type 2 has to be invalidated first.
        MwBound = 62 "a type 2 window is set free by an invalidation alone",
        /// The key cannot be invalidated by a request.
        OwnInvalidateRefused = 63 "the key is not that of a bound type 2 window",
        /// No link leads to the destination.
        NoPath = 56 "no link leads to the destination",
        /// The operation cannot be carried out in this QP.
        BadOperation = 57 "the QP cannot carry out the operation",

        /// The program moved the queue pair to ERR.
        ModifiedToErr = 64 "the program moved the QP to ERR",
        /// A completion queue overran.
        CqOverrun = 65 "the completion queue overran",
        /// The peer or its process went away.
        PeerGone = 66 "the peer is gone",
        /// The device stopped.
        DeviceFatal = 67 "the device stopped",
        /// Flushed; the queue pair's first cause tells why.
        Flushed = 68 "flushed after an earlier error",
        /// Somebody asked for it with `glassnic event`.
        Provoked = 69 "somebody asked for a fatal error with glassnic event",
    }
}

named_enum! {
    /// Why a packet was thrown away without an answer.
    pub enum DropReason {
        /// Shorter than its headers, bad version, or padding that cannot be.
        Malformed = 1 "malformed packet",
        /// The invariant checksum is wrong.
        BadIcrc = 2 "ICRC does not match",
        /// No queue pair has this number.
        UnknownQp = 3 "no QP has this number",
        /// The queue pair is in a state in which it does not take this packet.
        WrongState = 4 "the QP does not take packets in its state",
        /// The partition key does not match.
        PkeyMismatch = 5 "P_Key does not match",
        /// The queue key does not match (datagrams).
        QkeyMismatch = 6 "Q_Key does not match",
        /// It did not come from the connected peer's address.
        WrongSource = 7 "not from the connected peer",
        /// It was sent to an address that is not of the queue pair's GID.
        WrongDestination = 8 "sent to another address than the QP's GID",
        /// The opcode belongs to another service.
        WrongService = 9 "opcode of another transport service",
        /// The opcode is unknown.
        UnknownOpcode = 10 "unknown opcode",
        /// An unreliable service and no receive is posted.
        NoReceive = 11 "no receive is posted",
        /// An unreliable service and the message does not fit or is not permitted.
        ReceiveError = 12 "the receive cannot take the message",
        /// An unreliable service lost a packet before this one.
        OutOfSequence = 13 "out of sequence",
        /// A duplicate that needs no answer.
        Duplicate = 14 "duplicate",
        /// An answer to nothing that is outstanding.
        StaleResponse = 15 "response to nothing outstanding",
        /// The multicast group has no member here.
        NoMulticastMember = 16 "no member of the multicast group",
        /// A ring or queue of the device has no room.
        QueueFull = 17 "no room in the device's queue",
        /// The fault injector took it.
        Injected = 18 "dropped by fault injection",
        /// The network stack refused it.
        LinkError = 19 "the link could not carry it",
        /// A gap was already reported; packets behind it wait for the resend.
        WaitingForResend = 20 "behind a gap that is already reported",
    }
}
