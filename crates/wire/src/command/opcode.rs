//! The one table of command opcodes.

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
    /// Device memory is taken.
    AllocDm = 0x0021, "ALLOC_DM";
    /// Device memory is given back.
    FreeDm = 0x0022, "FREE_DM";
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
    /// The device has executed the command before: by which thread, how long it took, and what changed in the context.
    Executed = 0x010d, "EXECUTED";
    /// A destroy waits until the program has acknowledged the events that it took.
    DestroyWaits = 0x010e, "DESTROY_WAITS";
    /// It has waited long enough.
    DestroyWaited = 0x010f, "DESTROY_WAITED";
    /// An access to memory was turned down: its key, address and length, and the region that the key names.
    AccessDenied = 0x0110, "ACCESS_DENIED";
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
