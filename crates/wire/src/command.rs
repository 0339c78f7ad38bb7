//! The 72-byte command record: what a driver hands to the device, and what the flight recorder keeps.
//!
//! Little-endian throughout. The head and the tail are the same for all; the 44 bytes between belong to the opcode.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | opcode, [`CommandOpcode`]; CREATE_QP = 0x0004 |
//! | 2 | 2 | status and flags: errno in bits 0..=11 (0: executed), [`CommandFlags`] in bits 12..=15 |
//! | 4 | 4 | QPN, or 0 before one is given, or where no QP is meant |
//! | 8 | 4 | handle of the PD, or of the object meant where it is no QP |
//! | 12 | 44 | the opcode's fields: a [`Body`] |
//! | 56 | 8 | event sequence number |
//! | 64 | 8 | time of the host's monotonic clock, in nanoseconds |
//!
//! Offsets of the bodies are counted from the start of the record:
//!
//! | record | fields |
//! |---|---|
//! | [`CreateQp`] | 12 send CQ · 16 receive CQ · 20 SRQ · 24 max_send_wr · 28 max_recv_wr · 32 max_inline · 36 max_send_sge (u16) · 38 max_recv_sge (u16) · 40 QP type (u8) · 41 sq_sig_all (u8) · 42 create flags (u16) · 44 XRC domain · 48 user handle (u64) |
//! | [`ModifyQp`] | 12 attribute mask · 16 from state (u8) · 17 to state (u8) · 18 path MTU (u8) · 19 timeout (u8) · 20 destination QPN, or Q_Key · 24 rq_psn · 28 sq_psn · 32 destination GID (16) · 48 access (u8) · 49 max_rd_atomic (u8) · 50 max_dest_rd_atomic (u8) · 51 min_rnr_timer (u8) · 52 retry_cnt (u8) · 53 rnr_retry (u8) · 54 source GID index (u8) · 55 port (u8) |
//! | [`QueryQp`] | 12 attribute mask · 16 state (u8) · 17 zero (3) · 20 rq_psn · 24 sq_psn · 28 send queue used · 32 receive queue used · 36 last error · 40 zero (16) |
//! | [`RegMr`] | 12 access · 16 address (u64) · 24 length (u64) · 32 iova (u64) · 40 lkey · 44 rkey · 48 zero (8) |
//! | [`CreateQueue`] | 12 entries · 16 entries granted · 20 SGEs per entry · 24 completion channel or SRQ type · 28 completion vector · 32 limit · 36 zero (20) |
//! | [`CreateAh`] | 12 destination GID (16) · 28 source GID index (u8) · 29 hop limit (u8) · 30 traffic class (u8) · 31 port (u8) · 32 flow label · 36 zero (20) |
//! | [`StateMoved`] | 12 from state (u8) · 13 to state (u8) · 14 cause (u16) · 16 work request id (u64) · 24 zero (32) |
//! | [`Refusal`] | 12 packed refusal (5 × u64): call, rule, values · 52 zero (4) |
//! | [`CompletionError`] | 12 status (u8) · 13 work opcode (u8) · 14 syndrome (u8) · 15 zero (u8) · 16 vendor error · 20 PSN · 24 work request id (u64) · 32 CQ · 36 check (u16) · 38 zero (18) |
//! | [`Nak`] | 12 syndrome (u8) · 13 retries left (u8) · 14 check (u16) · 16 PSN · 20 expected PSN · 24 peer QPN · 28 MSN · 32 peer GID (16) · 48 delay ns (u64) |
//! | [`Timeout`] | 12 retries left (u8) · 13 RNR retries left (u8) · 14 kind (u8) · 15 zero (u8) · 16 oldest PSN · 20 next PSN · 24 waited ns (u64) · 32 zero (24) |
//! | [`AsyncEvent`] | 12 event type · 16 object handle · 20 zero (36) |
//! | [`Traffic`] | 12 opcode (u8) · 13 side (u8) · 14 cause (u16) · 16 PSN · 20 peer QPN · 24 length · 28 zero (4) · 32 peer GID (16) · 48 work request id (u64) |

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::WireError;

/// Bytes of a record.
pub const RECORD_LEN: usize = 72;
/// Offset of the opcode's own fields.
pub const BODY_OFFSET: usize = 12;
/// Bytes of the opcode's own fields.
pub const BODY_LEN: usize = 44;

macro_rules! command_opcodes {
    ($($(#[$doc:meta])* $id:ident = $value:literal, $name:literal;)*) => {
        /// What a record is: a command of the driver (below 0x0100), or an entry that the recorder makes.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u16)]
        pub enum CommandOpcode {
            $($(#[$doc])* $id = $value,)*
        }

        impl CommandOpcode {
            /// Every opcode, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            /// The name as people write it: `CREATE_QP`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// The opcode of a number, where there is one.
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($value => Some(Self::$id),)*
                    _ => None,
                }
            }
        }
    };
}

command_opcodes! {
    /// A context was opened.
    OpenDevice = 0x0001, "OPEN_DEVICE";
    /// A context was closed.
    CloseDevice = 0x0002, "CLOSE_DEVICE";
    /// Limits were asked for.
    QueryDevice = 0x0003, "QUERY_DEVICE";
    /// A QP is made: object, context memory, number.
    CreateQp = 0x0004, "CREATE_QP";
    /// A QP's state or attributes change.
    ModifyQp = 0x0005, "MODIFY_QP";
    /// A QP's context is read.
    QueryQp = 0x0006, "QUERY_QP";
    /// A QP ends.
    DestroyQp = 0x0007, "DESTROY_QP";
    /// A protection domain is made.
    AllocPd = 0x0008, "ALLOC_PD";
    /// A protection domain ends.
    DeallocPd = 0x0009, "DEALLOC_PD";
    /// Memory is registered.
    RegMr = 0x000a, "REG_MR";
    /// A registration changes.
    ReregMr = 0x000b, "REREG_MR";
    /// A registration ends.
    DeregMr = 0x000c, "DEREG_MR";
    /// A memory window is made.
    AllocMw = 0x000d, "ALLOC_MW";
    /// A memory window ends.
    DeallocMw = 0x000e, "DEALLOC_MW";
    /// A completion queue is made.
    CreateCq = 0x0010, "CREATE_CQ";
    /// A completion queue's moderation changes.
    ModifyCq = 0x0011, "MODIFY_CQ";
    /// A completion queue's size changes.
    ResizeCq = 0x0012, "RESIZE_CQ";
    /// A completion queue ends.
    DestroyCq = 0x0013, "DESTROY_CQ";
    /// An address handle is made.
    CreateAh = 0x0014, "CREATE_AH";
    /// An address handle ends.
    DestroyAh = 0x0015, "DESTROY_AH";
    /// A completion channel is made.
    CreateCompChannel = 0x0016, "CREATE_COMP_CHANNEL";
    /// A completion channel ends.
    DestroyCompChannel = 0x0017, "DESTROY_COMP_CHANNEL";
    /// A shared receive queue is made.
    CreateSrq = 0x0018, "CREATE_SRQ";
    /// A shared receive queue's size or limit changes.
    ModifySrq = 0x0019, "MODIFY_SRQ";
    /// A shared receive queue is read.
    QuerySrq = 0x001a, "QUERY_SRQ";
    /// A shared receive queue ends.
    DestroySrq = 0x001b, "DESTROY_SRQ";
    /// An XRC domain is opened.
    OpenXrcd = 0x001c, "OPEN_XRCD";
    /// An XRC domain is closed.
    CloseXrcd = 0x001d, "CLOSE_XRCD";
    /// A QP joins a multicast group.
    AttachMcast = 0x001e, "ATTACH_MCAST";
    /// A QP leaves a multicast group.
    DetachMcast = 0x001f, "DETACH_MCAST";
    /// The attributes of a port were asked for.
    QueryPort = 0x0020, "QUERY_PORT";
    /// A QP moved from one state to another, by command or by itself.
    StateMoved = 0x0100, "STATE_MOVED";
    /// A call was refused.
    Refusal = 0x0101, "REFUSAL";
    /// A work request completed with an error.
    CompletionError = 0x0102, "COMPLETION_ERROR";
    /// A NAK or RNR NAK was sent.
    NakSent = 0x0103, "NAK_SENT";
    /// A NAK or RNR NAK came in.
    NakReceived = 0x0104, "NAK_RECEIVED";
    /// A timer of the requester ran out.
    Timeout = 0x0105, "TIMEOUT";
    /// An asynchronous event was raised.
    AsyncEvent = 0x0106, "ASYNC_EVENT";
    /// The first work request was posted to a queue.
    FirstPost = 0x0107, "FIRST_POST";
    /// The first packet of a QP was sent.
    FirstPacketSent = 0x0108, "FIRST_PACKET_SENT";
    /// The first packet for a QP came in.
    FirstPacketReceived = 0x0109, "FIRST_PACKET_RECEIVED";
    /// A packet was dropped without an answer.
    PacketDropped = 0x010a, "PACKET_DROPPED";
    /// Packets are sent again.
    Retransmit = 0x010b, "RETRANSMIT";
    /// The first error of a QP since it left RESET: the cause of what followed.
    FirstError = 0x010c, "FIRST_ERROR";
}

impl CommandOpcode {
    /// The first number that is no command but an entry of the recorder.
    pub const FIRST_RECORDER_ENTRY: u16 = 0x0100;

    /// The opcode's number.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether a driver can send it; the others are made by the recorder.
    pub const fn is_command(self) -> bool {
        self.number() < Self::FIRST_RECORDER_ENTRY
    }
}

impl core::fmt::Display for CommandOpcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

bitflags::bitflags! {
    /// The flag bits of the status field.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct CommandFlags: u16 {
        /// The device has executed or refused it; without this it is still on its way.
        const DONE = 1 << 15;
        /// Submitted without waiting.
        const ASYNC = 1 << 14;
        /// Submitted under one doorbell with the record after it.
        const BATCH = 1 << 13;
    }
}

/// The bits of the status field that hold an errno.
const ERRNO_MASK: u16 = 0x0fff;

/// One record. Any 72 bytes are one, and keep their value; [`CommandRecord::opcode`] says whether the opcode is known.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
#[repr(C)]
pub struct CommandRecord {
    opcode: U16,
    status: U16,
    qpn: U32,
    pd: U32,
    body: [u8; BODY_LEN],
    seq: U64,
    timestamp_ns: U64,
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<CommandRecord>() == RECORD_LEN && align_of::<CommandRecord>() == 1);
    assert!(offset_of!(CommandRecord, status) == 2);
    assert!(offset_of!(CommandRecord, qpn) == 4);
    assert!(offset_of!(CommandRecord, pd) == 8);
    assert!(offset_of!(CommandRecord, body) == BODY_OFFSET);
    assert!(offset_of!(CommandRecord, seq) == 56);
    assert!(offset_of!(CommandRecord, timestamp_ns) == 64);
};

impl CommandRecord {
    /// A record with an empty body, not executed yet, sequence number and time zero.
    pub fn new(opcode: CommandOpcode) -> Self {
        Self {
            opcode: opcode.number().into(),
            status: 0.into(),
            qpn: 0.into(),
            pd: 0.into(),
            body: [0; BODY_LEN],
            seq: 0.into(),
            timestamp_ns: 0.into(),
        }
    }

    /// A record with a body of the opcode's type.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] where bodies of this type do not go with `opcode`.
    pub fn with_body<B: Body>(opcode: CommandOpcode, body: &B) -> Result<Self, WireError> {
        let mut record = Self::new(opcode);
        record.set_body(body)?;
        Ok(record)
    }

    /// The record that these bytes are.
    pub fn from_bytes(bytes: &[u8; RECORD_LEN]) -> Self {
        zerocopy::transmute!(*bytes)
    }

    /// The record at the front of `bytes`.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] where there are fewer than 72 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let short = WireError::Truncated { what: "command record", need: RECORD_LEN, got: bytes.len() };
        bytes.first_chunk().map(Self::from_bytes).ok_or(short)
    }

    /// The record's bytes.
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        zerocopy::transmute!(*self)
    }

    /// What the record is.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] for a number that is not in the table.
    pub fn opcode(&self) -> Result<CommandOpcode, WireError> {
        let number = self.opcode_number();
        CommandOpcode::from_number(number).ok_or(WireError::UnknownCommand(number))
    }

    /// The opcode's number, known or not.
    pub fn opcode_number(&self) -> u16 {
        self.opcode.get()
    }

    /// The errno of the outcome; 0 where it was executed, or was not yet.
    pub fn errno(&self) -> u16 {
        self.status.get() & ERRNO_MASK
    }

    /// The flags.
    pub fn flags(&self) -> CommandFlags {
        CommandFlags::from_bits_truncate(self.status.get())
    }

    /// Sets the errno, of which the low 12 bits count, and the flags.
    pub fn set_status(&mut self, errno: u16, flags: CommandFlags) {
        self.status = (errno & ERRNO_MASK | flags.bits()).into();
    }

    /// The QP meant, or 0. A device that reads a foreign record must not take it for 24 bits.
    pub fn qpn(&self) -> u32 {
        self.qpn.get()
    }

    /// Sets the QP meant.
    pub fn set_qpn(&mut self, qpn: u32) {
        self.qpn = qpn.into();
    }

    /// The handle of the PD, or of the object meant.
    pub fn pd(&self) -> u32 {
        self.pd.get()
    }

    /// Sets the handle of the PD, or of the object meant.
    pub fn set_pd(&mut self, pd: u32) {
        self.pd = pd.into();
    }

    /// The event sequence number.
    pub fn seq(&self) -> u64 {
        self.seq.get()
    }

    /// Sets the event sequence number.
    pub fn set_seq(&mut self, seq: u64) {
        self.seq = seq.into();
    }

    /// The time, in nanoseconds of the host's monotonic clock.
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns.get()
    }

    /// Sets the time, in nanoseconds of the host's monotonic clock.
    pub fn set_timestamp_ns(&mut self, ns: u64) {
        self.timestamp_ns = ns.into();
    }

    /// The 44 bytes of the opcode's fields.
    pub fn body_bytes(&self) -> &[u8; BODY_LEN] {
        &self.body
    }

    /// The opcode's fields; `None` where they are not those of a `B`.
    pub fn body<B: Body>(&self) -> Option<B> {
        let opcode = CommandOpcode::from_number(self.opcode_number())?;
        B::OPCODES.contains(&opcode).then(|| B::from_body(self.body))
    }

    /// Sets the opcode's fields.
    ///
    /// # Errors
    ///
    /// [`WireError::UnknownCommand`] where a `B` does not go with the record's opcode.
    pub fn set_body<B: Body>(&mut self, body: &B) -> Result<(), WireError> {
        if !B::OPCODES.contains(&self.opcode()?) {
            return Err(WireError::UnknownCommand(self.opcode_number()));
        }
        self.body = body.to_body();
        Ok(())
    }
}

/// The fields of some opcodes: 44 bytes, of which any are a valid value.
pub trait Body: Copy {
    /// The opcodes that have these fields.
    const OPCODES: &'static [CommandOpcode];
    /// The fields that these bytes are.
    fn from_body(bytes: [u8; BODY_LEN]) -> Self;
    /// The bytes of these fields.
    fn to_body(&self) -> [u8; BODY_LEN];
}

macro_rules! bodies {
    ($(
        $(#[$doc:meta])*
        $name:ident for [$($opcode:ident),*] {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $offset:literal;)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            /// All fields zero.
            fn default() -> Self {
                Self::from_body([0; BODY_LEN])
            }
        }

        const _: () = {
            assert!(core::mem::size_of::<$name>() == BODY_LEN);
            $(assert!(core::mem::offset_of!($name, $field) + BODY_OFFSET == $offset);)*
        };

        impl Body for $name {
            const OPCODES: &'static [CommandOpcode] = &[$(CommandOpcode::$opcode),*];

            fn from_body(bytes: [u8; BODY_LEN]) -> Self {
                zerocopy::transmute!(bytes)
            }

            fn to_body(&self) -> [u8; BODY_LEN] {
                zerocopy::transmute!(*self)
            }
        }
    )*};
}

bodies! {
    /// CREATE_QP: `ibv_qp_init_attr` (ibv_create_qp(3)).
    CreateQp for [CreateQp] {
        /// Handle of the send CQ.
        send_cq: U32 = 12;
        /// Handle of the receive CQ.
        recv_cq: U32 = 16;
        /// Handle of the SRQ, 0 for none.
        srq: U32 = 20;
        /// Work requests in the send queue: asked for, then granted.
        max_send_wr: U32 = 24;
        /// Work requests in the receive queue: asked for, then granted.
        max_recv_wr: U32 = 28;
        /// Bytes that can be posted inline.
        max_inline: U32 = 32;
        /// Scatter/gather entries of a send.
        max_send_sge: U16 = 36;
        /// Scatter/gather entries of a receive.
        max_recv_sge: U16 = 38;
        /// `enum ibv_qp_type`.
        qp_type: u8 = 40;
        /// 1 where every send completes with a completion.
        sq_sig_all: u8 = 41;
        /// The low 16 bits of `create_flags` (ibv_create_qp_ex(3)).
        create_flags: U16 = 42;
        /// Handle of the XRC domain, 0 for none.
        xrcd: U32 = 44;
        /// `qp_context`, as a number.
        user_handle: U64 = 48;
    }

    /// MODIFY_QP: `ibv_qp_attr` (ibv_modify_qp(3)); only fields named in the mask mean anything.
    ModifyQp for [ModifyQp] {
        /// `enum ibv_qp_attr_mask`.
        attr_mask: U32 = 12;
        /// `enum ibv_qp_state` before.
        from_state: u8 = 16;
        /// `enum ibv_qp_state` asked for.
        to_state: u8 = 17;
        /// `enum ibv_mtu`.
        path_mtu: u8 = 18;
        /// Local ACK timeout: 4.096 µs × 2^timeout, 0 for none.
        timeout: u8 = 19;
        /// Destination QPN, or the Q_Key where the mask says so (no QP has both).
        dest_qpn_or_qkey: U32 = 20;
        /// First PSN to expect.
        rq_psn: U32 = 24;
        /// First PSN to send.
        sq_psn: U32 = 28;
        /// Destination GID.
        dgid: [u8; 16] = 32;
        /// The low 8 bits of `qp_access_flags`.
        access: u8 = 48;
        /// Reads and atomics outstanding as requester.
        max_rd_atomic: u8 = 49;
        /// Reads and atomics outstanding as responder.
        max_dest_rd_atomic: u8 = 50;
        /// Encoded RNR timer to ask of the peer.
        min_rnr_timer: u8 = 51;
        /// Retries after timeouts and PSN errors.
        retry_cnt: u8 = 52;
        /// Retries after RNR NAKs; 7 is no limit.
        rnr_retry: u8 = 53;
        /// Index of the source GID.
        sgid_index: u8 = 54;
        /// Port.
        port_num: u8 = 55;
    }

    /// QUERY_QP: what the device found in the context.
    QueryQp for [QueryQp] {
        /// `enum ibv_qp_attr_mask` asked for.
        attr_mask: U32 = 12;
        /// `enum ibv_qp_state`.
        state: u8 = 16;
        /// Zero.
        zero0: [u8; 3] = 17;
        /// PSN expected next.
        rq_psn: U32 = 20;
        /// PSN to send next.
        sq_psn: U32 = 24;
        /// Work requests in the send queue.
        sq_used: U32 = 28;
        /// Work requests in the receive queue.
        rq_used: U32 = 32;
        /// `enum ibv_wc_status` of the first error, 0 for none.
        last_error: U32 = 36;
        /// Zero.
        zero1: [u8; 16] = 40;
    }

    /// REG_MR and REREG_MR (ibv_reg_mr(3)).
    RegMr for [RegMr, ReregMr, DeregMr] {
        /// `enum ibv_access_flags`.
        access: U32 = 12;
        /// Address in the process.
        addr: U64 = 16;
        /// Length in bytes.
        length: U64 = 24;
        /// Address that peers use.
        iova: U64 = 32;
        /// L_Key granted.
        lkey: U32 = 40;
        /// R_Key granted.
        rkey: U32 = 44;
        /// Zero.
        zero: [u8; 8] = 48;
    }

    /// CREATE_CQ, RESIZE_CQ, CREATE_SRQ, MODIFY_SRQ: a queue and its size.
    CreateQueue for [CreateCq, ModifyCq, ResizeCq, CreateSrq, ModifySrq] {
        /// Entries asked for.
        entries: U32 = 12;
        /// Entries granted.
        granted: U32 = 16;
        /// Scatter/gather entries of a receive; 0 for a CQ.
        max_sge: U32 = 20;
        /// Completion channel of a CQ, or `enum ibv_srq_type`.
        channel_or_type: U32 = 24;
        /// Completion vector of a CQ.
        comp_vector: U32 = 28;
        /// Limit of an SRQ at which it raises an event.
        limit: U32 = 32;
        /// Zero.
        zero: [u8; 20] = 36;
    }

    /// CREATE_AH: `ibv_ah_attr` (ibv_create_ah(3)).
    CreateAh for [CreateAh] {
        /// Destination GID.
        dgid: [u8; 16] = 12;
        /// Index of the source GID.
        sgid_index: u8 = 28;
        /// Hop limit.
        hop_limit: u8 = 29;
        /// Traffic class.
        traffic_class: u8 = 30;
        /// Port.
        port_num: u8 = 31;
        /// Flow label.
        flow_label: U32 = 32;
        /// Zero.
        zero: [u8; 20] = 36;
    }

    /// STATE_MOVED.
    StateMoved for [StateMoved] {
        /// `enum ibv_qp_state` before.
        from_state: u8 = 12;
        /// `enum ibv_qp_state` after.
        to_state: u8 = 13;
        /// Why, numbered as `glassnic_events::Cause`.
        cause: U16 = 14;
        /// The work request that failed, where one did.
        wr_id: U64 = 16;
        /// Zero.
        zero: [u8; 32] = 24;
    }

    /// REFUSAL: which call, which rule, what was offered, what would have been allowed.
    Refusal for [Refusal] {
        /// The refusal as `glassnic_events::Refusal::to_words` packs it.
        words: [U64; 5] = 12;
        /// Zero.
        zero: [u8; 4] = 52;
    }

    /// COMPLETION_ERROR, and FIRST_ERROR, which is kept apart because flushes may overwrite the rest.
    CompletionError for [CompletionError, FirstError] {
        /// `enum ibv_wc_status`.
        status: u8 = 12;
        /// `enum ibv_wc_opcode`, low 8 bits.
        wc_opcode: u8 = 13;
        /// Syndrome of the NAK that caused it, 0 for none.
        syndrome: u8 = 14;
        /// Zero.
        zero0: u8 = 15;
        /// Vendor error.
        vendor_err: U32 = 16;
        /// PSN.
        psn: U32 = 20;
        /// The work request.
        wr_id: U64 = 24;
        /// Handle of the CQ.
        cq: U32 = 32;
        /// The check that failed, numbered as `glassnic_events::Check`.
        check: U16 = 36;
        /// Zero.
        zero1: [u8; 18] = 38;
    }

    /// NAK_SENT and NAK_RECEIVED; an RNR NAK too.
    Nak for [NakSent, NakReceived] {
        /// AETH syndrome.
        syndrome: u8 = 12;
        /// Retries left after an RNR NAK that came in; 0xff for no limit.
        retries_left: u8 = 13;
        /// The check that failed, numbered as `glassnic_events::Check`.
        check: U16 = 14;
        /// PSN of the NAK.
        psn: U32 = 16;
        /// PSN that was expected.
        expected_psn: U32 = 20;
        /// QPN of the peer.
        peer_qpn: U32 = 24;
        /// MSN.
        msn: U32 = 28;
        /// GID of the peer.
        peer_gid: [u8; 16] = 32;
        /// The time to wait that an RNR NAK asks for, in nanoseconds.
        delay_ns: U64 = 48;
    }

    /// TIMEOUT and RETRANSMIT.
    Timeout for [Timeout, Retransmit] {
        /// Retries left.
        retries_left: u8 = 12;
        /// RNR retries left.
        rnr_retries_left: u8 = 13;
        /// 0 for the ACK timer, 1 for an RNR wait.
        kind: u8 = 14;
        /// Zero.
        zero0: u8 = 15;
        /// The oldest PSN without an acknowledge.
        oldest_psn: U32 = 16;
        /// The PSN to send next.
        next_psn: U32 = 20;
        /// How long it waited, in nanoseconds.
        waited_ns: U64 = 24;
        /// Zero.
        zero1: [u8; 24] = 32;
    }

    /// ASYNC_EVENT (ibv_get_async_event(3)).
    AsyncEvent for [AsyncEvent] {
        /// `enum ibv_event_type`.
        event_type: U32 = 12;
        /// Handle or number of the object.
        handle: U32 = 16;
        /// Zero.
        zero: [u8; 36] = 20;
    }

    /// FIRST_POST, FIRST_PACKET_SENT, FIRST_PACKET_RECEIVED, PACKET_DROPPED.
    Traffic for [FirstPost, FirstPacketSent, FirstPacketReceived, PacketDropped] {
        /// BTH opcode, or `enum ibv_wr_opcode` of a post.
        opcode: u8 = 12;
        /// 0 for the send side, 1 for the receive side.
        side: u8 = 13;
        /// Why a packet was dropped, numbered as `glassnic_events::DropReason`.
        cause: U16 = 14;
        /// PSN.
        psn: U32 = 16;
        /// QPN of the peer.
        peer_qpn: U32 = 20;
        /// Bytes.
        length: U32 = 24;
        /// Zero.
        zero: [u8; 4] = 28;
        /// GID of the peer.
        peer_gid: [u8; 16] = 32;
        /// The work request, of a post.
        wr_id: U64 = 48;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_article_s_create_qp() {
        // The 72 payload bytes of the frame that the article prints (its last 6, not printed, are zero).
        let mut bytes = [0; RECORD_LEN];
        bytes[0] = 0x04;
        bytes[8] = 0x48;
        let record = CommandRecord::from_bytes(&bytes);
        assert_eq!(record.opcode(), Ok(CommandOpcode::CreateQp));
        assert_eq!((record.qpn(), record.pd()), (0, 0x48));
        let mut made = CommandRecord::new(CommandOpcode::CreateQp);
        made.set_pd(0x48);
        assert_eq!(made.to_bytes(), bytes);
    }

    #[test]
    fn fields_lie_where_the_table_says() {
        let mut record = CommandRecord::new(CommandOpcode::ModifyQp);
        record.set_status(22, CommandFlags::DONE | CommandFlags::BATCH);
        record.set_qpn(0x0012_3456);
        record.set_pd(7);
        record.set_seq(0x0102_0304_0506_0708);
        record.set_timestamp_ns(9);
        let body = ModifyQp { attr_mask: 0x81.into(), to_state: 3, port_num: 1, ..ModifyQp::default() };
        record.set_body(&body).unwrap();
        let bytes = record.to_bytes();
        assert_eq!(bytes[..12], [5, 0, 22, 0xa0, 0x56, 0x34, 0x12, 0, 7, 0, 0, 0]);
        assert_eq!((bytes[12], bytes[17], bytes[55]), (0x81, 3, 1));
        assert_eq!(bytes[56..], [8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0]);
        let back = CommandRecord::parse(&bytes).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.body::<ModifyQp>(), Some(body));
        assert_eq!((back.errno(), back.flags()), (22, CommandFlags::DONE | CommandFlags::BATCH));
    }

    #[test]
    fn a_body_goes_with_its_opcodes_only() {
        let record = CommandRecord::new(CommandOpcode::DestroyQp);
        assert_eq!(record.body::<ModifyQp>(), None);
        assert!(CommandRecord::with_body(CommandOpcode::DestroyQp, &ModifyQp::default()).is_err());
        assert!(CommandRecord::with_body(CommandOpcode::NakSent, &Nak::default()).is_ok());
    }

    #[test]
    fn numbers_and_names_are_in_order_and_come_back() {
        assert!(CommandOpcode::ALL.is_sorted_by(|a, b| a < b));
        for opcode in CommandOpcode::ALL {
            assert_eq!(CommandOpcode::from_number(opcode.number()), Some(*opcode));
            assert_eq!(opcode.is_command(), opcode.number() < 0x100);
        }
        let qp = [
            CommandOpcode::CreateQp,
            CommandOpcode::ModifyQp,
            CommandOpcode::QueryQp,
            CommandOpcode::DestroyQp,
        ];
        assert_eq!(qp.map(CommandOpcode::number), [4, 5, 6, 7]);
        assert_eq!(qp.map(CommandOpcode::name), ["CREATE_QP", "MODIFY_QP", "QUERY_QP", "DESTROY_QP"]);
    }

    #[test]
    fn too_short_or_unknown_is_an_error() {
        for len in 0..RECORD_LEN {
            assert!(matches!(
                CommandRecord::parse(&vec![0; len]),
                Err(WireError::Truncated { need: 72, .. })
            ));
        }
        let record = CommandRecord::from_bytes(&[0xff; RECORD_LEN]);
        assert_eq!(record.opcode(), Err(WireError::UnknownCommand(0xffff)));
        assert_eq!(record.to_bytes(), [0xff; RECORD_LEN]);
    }
}
