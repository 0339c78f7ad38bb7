//! The 44 bytes of a record that belong to its opcode.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BODY_LEN, BODY_OFFSET, CommandOpcode};

/// One field of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// Its name, as in the struct.
    pub name: &'static str,
    /// Where it begins, counted from the start of the record.
    pub offset: usize,
    /// Its bytes: a little-endian number of 1, 2, 4 or 8; more are an array.
    pub len: usize,
}

impl Field {
    /// The field's bytes in a record.
    pub fn bytes<'a>(&self, record: &'a [u8; super::RECORD_LEN]) -> &'a [u8] {
        record.get(self.offset..self.offset + self.len).unwrap_or_default()
    }

    /// The field's value in a record; `None` for an array.
    pub fn number(&self, record: &[u8; super::RECORD_LEN]) -> Option<u64> {
        let bytes = self.bytes(record);
        (bytes.len() <= 8).then(|| bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// Whether it is there for the layout only.
    pub fn is_reserved(&self) -> bool {
        self.name.starts_with("reserved")
    }
}

/// The fields of some opcodes: 44 bytes, of which any are a valid value.
pub trait Body: Copy {
    /// The opcodes that have these fields.
    const OPCODES: &'static [CommandOpcode];
    /// The fields, in the order of their offsets. Those named `reserved…` are zero.
    const FIELDS: &'static [Field];
    /// The fields that these bytes are.
    fn from_body(bytes: [u8; BODY_LEN]) -> Self;
    /// The bytes of these fields.
    fn to_body(&self) -> [u8; BODY_LEN];
}

/// A body as data: whose it is, and its fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyInfo {
    /// The name of its struct.
    pub name: &'static str,
    /// As [`Body::OPCODES`].
    pub opcodes: &'static [CommandOpcode],
    /// As [`Body::FIELDS`].
    pub fields: &'static [Field],
}

/// The body of an opcode; `None` for those whose 44 bytes are zero.
pub fn info(opcode: CommandOpcode) -> Option<&'static BodyInfo> {
    BODIES.iter().find(|body| body.opcodes.contains(&opcode))
}

macro_rules! bodies {
    ($(
        $(#[$doc:meta])*
        $name:ident for [$($opcode:ident),*] {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $offset:literal;)*
        }
    )*) => {
        /// Every body.
        pub const BODIES: &[BodyInfo] =
            &[$(BodyInfo { name: stringify!($name), opcodes: $name::OPCODES, fields: $name::FIELDS }),*];

        $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* #[doc = concat!("Offset ", $offset, ".")] pub $field: $type,)*
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
            const FIELDS: &'static [Field] =
                &[$(Field { name: stringify!($field), offset: $offset, len: core::mem::size_of::<$type>() }),*];

            fn from_body(bytes: [u8; BODY_LEN]) -> Self {
                zerocopy::transmute!(bytes)
            }

            fn to_body(&self) -> [u8; BODY_LEN] {
                zerocopy::transmute!(*self)
            }
        }
        )*
    };
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
        /// Always zero.
        reserved0: [u8; 3] = 17;
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
        /// Always zero.
        reserved1: [u8; 16] = 40;
    }

    /// DESTROY_QP: what the context said at the end.
    DestroyQp for [DestroyQp] {
        /// `enum ibv_qp_state`.
        state: u8 = 12;
        /// Always zero.
        reserved0: [u8; 3] = 13;
        /// Sends ever posted.
        sq_tail: U32 = 16;
        /// Sends finished.
        sq_head: U32 = 20;
        /// PSN to send next.
        sq_psn: U32 = 24;
        /// PSN expected next.
        rq_psn: U32 = 28;
        /// Messages completed as responder, 24 bits.
        msn: U32 = 32;
        /// Receives ever posted.
        rq_tail: U32 = 36;
        /// `enum ibv_wc_status` of the first error, 0 for none.
        first_status: U16 = 40;
        /// The check that failed first, numbered as `glassnic_events::Check`.
        first_check: U16 = 42;
        /// Modifies that found another thread's on its way; 65,535 for more.
        overlaps: U16 = 44;
        /// Queries that came before the device had written its context back; 65,535 for more.
        early_queries: U16 = 46;
        /// Thread that came while another's modify was on its way, the last time.
        overlap_by: U32 = 48;
        /// That other thread.
        overlap_with: U32 = 52;
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
        /// Always zero.
        reserved: [u8; 8] = 48;
    }

    /// ALLOC_MW (ibv_alloc_mw(3)).
    AllocMw for [AllocMw] {
        /// `enum ibv_mw_type`.
        mw_type: u8 = 12;
        /// Always zero.
        reserved0: [u8; 3] = 13;
        /// R_Key granted.
        rkey: U32 = 16;
        /// Always zero.
        reserved1: [u8; 36] = 20;
    }

    /// CREATE_CQ, MODIFY_CQ, RESIZE_CQ, CREATE_SRQ, MODIFY_SRQ: a queue and its size.
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
        /// Completions that an event of a CQ stands for.
        moderate_count: U16 = 36;
        /// The longest that an event of a CQ is held back, in microseconds.
        moderate_period: U16 = 38;
        /// Always zero.
        reserved: [u8; 16] = 40;
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
        /// Always zero.
        reserved: [u8; 20] = 36;
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
        /// Always zero.
        reserved: [u8; 32] = 24;
    }

    /// REFUSAL: which call, which rule, what was offered, what would have been allowed.
    Refusal for [Refusal] {
        /// The refusal as `glassnic_events::Refusal::to_words` packs it.
        words: [U64; 5] = 12;
        /// Thread that made the call.
        thread: U32 = 52;
    }

    /// EXECUTED: follows the command. Changes that do not fit go on in another one.
    Executed for [Executed] {
        /// The command's opcode.
        command: U16 = 12;
        /// Bytes of `changes` in use.
        used: u8 = 14;
        /// Thread that made the call.
        thread: U32 = 15;
        /// From the call into the device to the status, in nanoseconds.
        took_ns: U32 = 19;
        /// Fields of the context that changed: offset (1 byte), then old and new bytes, each as wide as the field; and so on.
        changes: [u8; 33] = 23;
    }

    /// COMPLETION_ERROR, and FIRST_ERROR, which is kept apart because flushes may overwrite the rest.
    CompletionError for [CompletionError, FirstError] {
        /// `enum ibv_wc_status`.
        status: u8 = 12;
        /// `enum ibv_wc_opcode`, low 8 bits.
        wc_opcode: u8 = 13;
        /// Syndrome of the NAK that caused it, 0 for none.
        syndrome: u8 = 14;
        /// Always zero.
        reserved0: u8 = 15;
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
        /// Always zero.
        reserved1: [u8; 18] = 38;
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
        /// Always zero.
        reserved0: u8 = 15;
        /// The oldest PSN without an acknowledge.
        oldest_psn: U32 = 16;
        /// The PSN to send next.
        next_psn: U32 = 20;
        /// How long it waited, in nanoseconds.
        waited_ns: U64 = 24;
        /// Always zero.
        reserved1: [u8; 24] = 32;
    }

    /// DESTROY_WAITS and DESTROY_WAITED: the object's handle stands in the head.
    Waiting for [DestroyWaits, DestroyWaited] {
        /// Kind of the object, numbered as `glassnic_events::ObjectKind`.
        kind: U16 = 12;
        /// Always zero.
        reserved0: U16 = 14;
        /// Events taken and not acknowledged.
        events: U32 = 16;
        /// Thread that waits.
        thread: U32 = 20;
        /// Always zero.
        reserved1: [u8; 32] = 24;
    }

    /// ACCESS_DENIED: the region's PD stands in the head.
    AccessDenied for [AccessDenied] {
        /// The key, local or remote.
        key: U32 = 12;
        /// First address.
        addr: U64 = 16;
        /// Length in bytes.
        length: U64 = 24;
        /// First address of the region that the key names.
        region_start: U64 = 32;
        /// Length of the region.
        region_length: U64 = 40;
        /// `enum ibv_access_flags` of the region, the low 16 bits.
        access: U16 = 48;
        /// The check that failed, numbered as `glassnic_events::Check`.
        check: U16 = 50;
        /// 1 where the key names a region, 3 where it is that region's other key: lkey instead of rkey, or the reverse.
        region: u8 = 52;
        /// Always zero.
        reserved: [u8; 3] = 53;
    }

    /// ASYNC_EVENT (ibv_get_async_event(3)).
    AsyncEvent for [AsyncEvent] {
        /// `enum ibv_event_type`.
        event_type: U32 = 12;
        /// Handle or number of the object.
        handle: U32 = 16;
        /// Always zero.
        reserved: [u8; 36] = 20;
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
        /// Always zero.
        reserved: [u8; 4] = 28;
        /// GID of the peer.
        peer_gid: [u8; 16] = 32;
        /// The work request, of a post.
        wr_id: U64 = 48;
    }
}
