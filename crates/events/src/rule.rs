//! What was refused and why, as data.
//!
//! A [`Rule`] names one thing that a call got wrong, with the value offered and what would be right. It is the
//! only source of a refusal's errno ([`crate::errno()`]), text and JSON. It packs into [`REFUSAL_WORDS`] words, so
//! that a record in shared memory can keep it after its process is gone.

use core::fmt;

use crate::name::{Call, Field, Limit, ObjectKind, Queue};
use crate::packed::Packed;
use crate::qp::{AttrMask, QpState, QpType, StateSet, Transition, TransitionSet, write_list};
use crate::work::WrOpcode;

/// A 128-bit port address, in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

/// Writes the IPv6 form, which is also how IPv4-mapped GIDs are known: `::ffff:10.0.0.7`.
impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

/// A set of table indices below 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexSet(pub u64);

impl IndexSet {
    /// Is the index in the set?
    pub const fn contains(self, index: u8) -> bool {
        index < 64 && self.0 & (1 << index) != 0
    }

    /// The same set with one index more; indices of 64 and above cannot be kept and are left out.
    #[must_use]
    pub const fn with(self, index: u8) -> Self {
        if index < 64 { Self(self.0 | 1 << index) } else { self }
    }

    /// The members in rising order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |index| self.contains(*index))
    }
}

/// Writes `0, 1 or 3`.
impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, self.iter().count(), self.iter())
    }
}

/// A call that was turned down: nothing has changed, and this is why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The call that the program made.
    pub call: Call,
    /// The queue pair meant, if the call is about one.
    pub qpn: Option<u32>,
    /// The states between which the call meant to move the queue pair; the state it is in, twice, for a call that does not
    /// move it. The first is where it still is.
    pub moving: Option<(QpState, QpState)>,
    /// The rule that was broken, with the values.
    pub rule: Rule,
}

impl Refusal {
    /// A refusal of a call that is not about a queue pair.
    pub const fn new(call: Call, rule: Rule) -> Self {
        Self { call, qpn: None, moving: None, rule }
    }

    /// A refusal of a call on this queue pair.
    pub const fn on_qp(call: Call, qpn: u32, rule: Rule) -> Self {
        Self { call, qpn: Some(qpn), moving: None, rule }
    }

    /// The same refusal of a call that meant to move the queue pair from one state to another.
    #[must_use]
    pub const fn moving(mut self, from: QpState, to: QpState) -> Self {
        self.moving = Some((from, to));
        self
    }

    /// The same refusal of a call on a queue pair in this state.
    #[must_use]
    pub const fn in_state(self, state: QpState) -> Self {
        self.moving(state, state)
    }

    /// Packs it. Word 0 holds call (bits 0–15), rule (16–31), QPN (32–55), the states moved between (56–58 from, 59–61
    /// to), whether these are there (62) and whether the QPN is (63); words 1–4 hold the rule's values in the order of
    /// its fields.
    pub fn to_words(&self) -> [u64; REFUSAL_WORDS] {
        let qpn = self.qpn.map_or(0, |qpn| u64::from(qpn & 0xff_ffff) << 32 | 1 << 63);
        let moving = |(from, to): (QpState, QpState)| {
            u64::from(from.value()) << 56 | u64::from(to.value()) << 59 | 1 << 62
        };
        let mut words = [0; REFUSAL_WORDS];
        let [head, values @ ..] = &mut words;
        *head = u64::from(self.call.value() & 0xffff) | u64::from(self.rule.code()) << 16 | qpn;
        *head |= self.moving.map_or(0, moving);
        self.rule.put(values);
        words
    }

    /// Unpacks what [`Refusal::to_words`] packed. The words may come from memory that others write: anything that
    /// names no call, rule or value gives `None`.
    pub fn from_words(words: &[u64; REFUSAL_WORDS]) -> Option<Self> {
        let [head, values @ ..] = words;
        let call = Call::try_from((head & 0xffff) as u32).ok()?;
        let rule = Rule::take((head >> 16 & 0xffff) as u16, values)?;
        let qpn = (head >> 63 != 0).then_some((head >> 32 & 0xff_ffff) as u32);
        let state = |shift: u32| QpState::try_from((head >> shift & 7) as u32).ok();
        let moving = if head >> 62 & 1 != 0 { Some((state(56)?, state(59)?)) } else { None };
        Some(Self { call, qpn, moving, rule })
    }
}

/// Words that a packed [`Refusal`] takes.
pub const REFUSAL_WORDS: usize = 1 + VALUE_WORDS;
pub(crate) const VALUE_WORDS: usize = 4;

/// Declares [`Rule`] with its packing: a number for each rule, and its fields in order.
macro_rules! rules {
    (
        $(#[$outer:meta])*
        pub enum Rule {
            $( $(#[$inner:meta])* $variant:ident = $code:literal
               { $( $(#[$field_doc:meta])* $field:ident: $kind:ty, )* }, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $( $(#[$inner])* $variant { $( $(#[$field_doc])* $field: $kind, )* }, )+
        }

        // Each rule must fit the words of a record.
        $( const _: () = assert!(VALUE_WORDS + 1 > 0 $( + <$kind as Packed>::WORDS )*); )+

        impl Rule {
            /// The numbers of all rules, in the order of declaration.
            pub const CODES: &'static [u16] = &[ $( $code, )+ ];

            /// The number that stands for this rule in records.
            pub const fn code(&self) -> u16 {
                match self { $( Self::$variant { .. } => $code, )+ }
            }

            /// The name of the rule, for machines that read JSON.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$variant { .. } => stringify!($variant), )+ }
            }

            #[allow(unused_assignments, unused_variables, unused_mut, reason = "the last field; rules without fields")]
            fn put(&self, words: &mut [u64; VALUE_WORDS]) {
                match *self { $( Self::$variant { $( $field, )* } => {
                    let mut rest = words.as_mut_slice();
                    $(
                        let (mine, after) = rest.split_at_mut(<$kind as Packed>::WORDS);
                        $field.put(mine);
                        rest = after;
                    )*
                } )+ }
            }

            #[allow(unused_assignments, unused_variables, unused_mut, reason = "the last field; rules without fields")]
            fn take(code: u16, words: &[u64; VALUE_WORDS]) -> Option<Self> {
                match code { $( $code => {
                    let mut rest = words.as_slice();
                    $(
                        let $field = <$kind as Packed>::take(rest)?;
                        rest = rest.get(<$kind as Packed>::WORDS..)?;
                    )*
                    Some(Self::$variant { $( $field, )* })
                } )+ _ => None }
            }
        }
    };
}

rules! {
    /// One rule of verbs, broken. Which errno it gives is decided in [`crate::errno()`].
    ///
    /// Numbers are in the unit of the field named: bytes for lengths and MTUs, requests for queues, entries for tables.
    ///
    /// Exhaustive on purpose: a new rule does not compile before it has an errno and an explanation.
    pub enum Rule {
        // Values.
        /// A value is above a limit that the device states.
        ExceedsLimit = 1 {
            /// The field.
            what: Field,
            /// Its value.
            offered: u64,
            /// The greatest value allowed.
            limit: u64,
            /// Where a program can read that limit.
            limit_name: Limit,
        },
        /// A value is outside what the encoding allows.
        OutOfRange = 2 {
            /// The field.
            what: Field,
            /// Its value.
            offered: u64,
            /// The least value allowed.
            min: u64,
            /// The greatest value allowed.
            max: u64,
        },
        /// A number is no member of its enumeration; an uninitialised structure looks like this.
        UnknownValue = 3 {
            /// The field.
            what: Field,
            /// Its value.
            value: u64,
        },
        /// Bits are set that mean nothing.
        UnknownBits = 4 {
            /// The field.
            what: Field,
            /// The bits that mean nothing.
            bits: u64,
        },
        /// A pointer that must point somewhere is NULL.
        NullPointer = 5 {
            /// The argument or field.
            what: Field,
        },
        /// A length or count of zero where something is needed.
        ZeroLength = 6 {
            /// The field.
            what: Field,
        },
        /// A field that the call needs is not given (its bit is missing from `comp_mask` or the like).
        MissingField = 7 {
            /// The field.
            what: Field,
        },
        /// Two fields exclude each other.
        Conflict = 8 {
            /// One.
            what: Field,
            /// The other.
            with: Field,
        },
        /// The device does not have this.
        NotSupported = 9 {
            /// The field that asked for it.
            what: Field,
            /// The value that asked for it.
            value: u64,
        },
        /// The field has no meaning for queue pairs of this type and must be zero or NULL.
        NotForQpType = 10 {
            /// The field.
            what: Field,
            /// The type.
            qp_type: QpType,
        },

        /// A size is above what queue pairs of this type can have.
        CapAboveLimit = 11 {
            /// The field of `cap`.
            what: Field,
            /// Its value.
            offered: u32,
            /// The greatest value allowed; [`Field::limit_of_cap`] names where a program can read it.
            limit: u32,
            /// The type.
            qp_type: QpType,
        },

        /// A value has to be a multiple of another.
        NotMultiple = 12 {
            /// The field.
            what: Field,
            /// Its value.
            offered: u64,
            /// What it has to be a multiple of.
            of: u64,
        },

        // Moving a queue pair.
        /// The two states are not joined by an arrow.
        NotListedTransition = 20 {
            /// The move asked for.
            at: Transition,
            /// Where one can go from that state.
            reachable: StateSet,
        },
        /// Attributes that the move requires are not in the mask.
        MissingAttrs = 21 {
            /// The move.
            at: Transition,
            /// The missing bits.
            missing: AttrMask,
        },
        /// Attributes are in the mask that cannot be set in this move.
        ForbiddenAttrs = 22 {
            /// The move.
            at: Transition,
            /// The bits too many.
            forbidden: AttrMask,
            /// The moves of this type in which all these bits may be given; empty if there is none.
            allowed_in: TransitionSet,
            /// The moves in which the lowest of these bits may be given: told where no move takes all.
            first_in: TransitionSet,
        },
        /// `cur_qp_state`, or the caller of a safe modify, says that the queue pair is in a state in which it is not.
        StateMismatch = 23 {
            /// The state claimed.
            given: QpState,
            /// The state it is in.
            actual: QpState,
        },
        /// The send queue is still draining.
        StillDraining = 24 {
            /// The move.
            at: Transition,
        },
        /// On Ethernet every address needs a global route header.
        NoGrh = 25 {
            /// `ah_attr.is_global` or that of the alternate path.
            what: Field,
            /// The port.
            port: u8,
        },
        /// The entry of the GID table is empty.
        GidIndexEmpty = 26 {
            /// The port.
            port: u8,
            /// The index given.
            index: u8,
            /// The indices that hold a GID.
            valid: IndexSet,
        },
        /// The destination GID is all zeros: the peer's GID was never filled in.
        GidZero = 27 {
            /// The field.
            what: Field,
        },
        /// The address vector names another port than the queue pair is on.
        PortMismatch = 28 {
            /// The field.
            what: Field,
            /// Its value.
            given: u8,
            /// The port of the queue pair.
            qp_port: u8,
        },
        /// The path MTU does not fit the port.
        MtuAbovePort = 29 {
            /// The path MTU asked for, in bytes.
            offered: u32,
            /// The port's active MTU, in bytes.
            active_mtu: u32,
            /// The port.
            port: u8,
        },
        /// No route leads to the destination.
        NoRoute = 30 {
            /// The destination.
            dgid: Gid,
        },
        /// There is a route, but the neighbour does not answer.
        NeighbourUnresolved = 31 {
            /// The destination.
            dgid: Gid,
        },
        /// The device has no atomics (`atomic_cap` is `IBV_ATOMIC_NONE`).
        AtomicsUnsupported = 32 {
            /// The field that asks for them.
            what: Field,
        },
        /// The index is beyond the end of the GID table.
        GidIndexBeyond = 33 {
            /// The port.
            port: u8,
            /// The index given.
            index: u8,
            /// Entries of the table, empty ones included.
            len: u8,
            /// The indices that hold a GID.
            valid: IndexSet,
        },

        // Posting work.
        /// The queue pair is in a state in which the call is not allowed.
        WrongState = 40 {
            /// The state it is in.
            state: QpState,
            /// The states in which the call is allowed.
            needs: StateSet,
        },
        /// No room: completions of earlier requests were not polled yet.
        QueueFull = 41 {
            /// The queue.
            queue: Queue,
            /// The requests it can hold.
            depth: u32,
            /// Those of them that are done but were not signaled: they keep their place until a later one that is
            /// signaled is polled.
            silent: u32,
        },
        /// More scatter/gather entries than the queue was created for.
        TooManySges = 42 {
            /// The queue.
            queue: Queue,
            /// Entries given.
            offered: u32,
            /// Entries allowed.
            max: u32,
        },
        /// More inline bytes than the queue was created for.
        InlineTooLarge = 43 {
            /// Bytes given.
            offered: u64,
            /// Bytes allowed.
            max: u32,
        },
        /// The type of queue pair cannot carry this operation.
        BadOpcode = 44 {
            /// The operation.
            opcode: WrOpcode,
            /// The type.
            qp_type: QpType,
        },
        /// An atomic on an address that is not a multiple of eight, or not of eight bytes.
        BadAtomic = 45 {
            /// The remote address.
            remote_addr: u64,
            /// The local length in bytes; must be 8.
            length: u64,
        },
        /// A message longer than the service can carry.
        MessageTooLong = 46 {
            /// Bytes given.
            offered: u64,
            /// Bytes allowed.
            max: u64,
        },
        /// Receives of this queue pair are taken from a shared receive queue; post them there.
        ReceivesComeFromSrq = 47 {
            /// The SRQ's handle.
            srq: u32,
        },

        // Memory.

        /// The region wraps around the address space.
        MrRange = 60 {
            /// First address.
            addr: u64,
            /// Length in bytes.
            len: u64,
        },
        /// The program has no such memory mapped.
        MemoryNotMapped = 61 {
            /// First address.
            addr: u64,
            /// Length in bytes.
            len: u64,
        },
        /// The memory is mapped read-only, and the region asks for writing.
        MemoryNotWritable = 62 {
            /// First address.
            addr: u64,
            /// Length in bytes.
            len: u64,
        },
        /// Remote writes and atomics need `IBV_ACCESS_LOCAL_WRITE` too (IBA o10-37.2.1; `ibv_reg_mr(3)`).
        RemoteNeedsLocalWrite = 63 {
            /// The access flags given.
            access: u32,
        },
        /// The MR was registered without `IBV_ACCESS_MW_BIND`.
        MwBindNotPermitted = 64 {
            /// The lkey of the MR.
            lkey: u32,
        },
        /// A memory window of the other type is needed.
        MwTypeMismatch = 65 {
            /// The type it has: 1 or 2.
            given: u8,
            /// The type it needs to be.
            needs: u8,
        },

        /// No region has this lkey.
        KeyUnknown = 66 {
            /// The lkey.
            lkey: u32,
        },
        /// The region does not page on demand.
        NotOnDemand = 67 {
            /// Its lkey.
            lkey: u32,
        },

        // Objects and resources.

        /// As many objects exist as the device can hold.
        LimitReached = 80 {
            /// Their kind.
            kind: ObjectKind,
            /// The number the device can hold.
            limit: u64,
            /// The number that this process holds.
            held: u64,
        },
        /// The memory for an object could not be had.
        NoMemory = 81 {
            /// The object.
            kind: ObjectKind,
            /// The bytes asked for.
            bytes: u64,
        },
        /// The memory would exceed what the process may lock.
        MemlockExceeded = 82 {
            /// The bytes needed.
            needed: u64,
            /// RLIMIT_MEMLOCK in bytes.
            limit: u64,
        },
        /// The object has children that must go first.
        InUse = 83 {
            /// Its kind.
            kind: ObjectKind,
            /// Its handle or number.
            handle: u32,
            /// The kind of what uses it.
            by_kind: ObjectKind,
            /// How many of them.
            count: u32,
        },
        /// No such object: never created, or destroyed before.
        BadHandle = 84 {
            /// The kind asked for.
            kind: ObjectKind,
            /// The handle or number.
            handle: u32,
        },
        /// The object belongs to another open device.
        OtherContext = 85 {
            /// Its kind.
            kind: ObjectKind,
            /// Its handle or number.
            handle: u32,
        },
        /// The object belongs to another protection domain.
        OtherPd = 86 {
            /// Its kind.
            kind: ObjectKind,
            /// Its handle or number.
            handle: u32,
            /// The protection domain it belongs to.
            pd: u32,
            /// The protection domain needed.
            needs: u32,
        },
        /// A queue would become smaller than what it holds.
        ShrinksBelowUse = 87 {
            /// The field.
            what: Field,
            /// The size asked for.
            offered: u64,
            /// The entries held.
            held: u64,
        },
        /// The GID is not a multicast address.
        NotMulticast = 88 {
            /// The GID.
            gid: Gid,
        },
        /// The queue pair is not attached to the multicast group.
        NotAttached = 89 {
            /// The group.
            gid: Gid,
        },
        /// The device was opened before `fork(2)`, and the caller is the child.
        ForkedChild = 90 {
            /// The process that opened it.
            opened_by: u32,
            /// The caller.
            caller: u32,
        },
        /// The device has stopped; only destroy calls are served.
        DeviceGone = 91 {},
        /// The caller has not the right to do this.
        NotPermitted = 92 {
            /// The field that asks for it.
            what: Field,
        },
    }
}
