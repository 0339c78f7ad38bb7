//! A sentence for each rule.

use glassnic_events::{
    AttrMask, Call, Field, Limit, ObjectKind, QpState, QpType, Queue, Rule, StateSet, Transition, WrOpcode,
};

use crate::Said;

/// `say!("what" => "remedy")`, both as for `format!`.
macro_rules! say {
    ($what:literal => $remedy:literal $(, $value:expr)?) => {
        Said { what: format!($what), remedy: format!($remedy $(, $value)?) }
    };
}

/// The dictionary: one arm a rule, in the order in which rules are declared.
pub(crate) fn say(call: Call, rule: &Rule) -> Said {
    match *rule {
        Rule::ExceedsLimit { what, offered, limit, limit_name } => {
            let source = limit_source(limit_name);
            say!("{what}={offered} exceeds {limit_name}={limit}" => "use at most {limit} ({source})")
        }
        Rule::OutOfRange { what, offered, min, max } => out_of_range(what, offered, min, max),
        Rule::UnknownValue { what, value } => unknown_value(what, value),
        Rule::UnknownBits { what, bits } => {
            say!("{what} has bits that mean nothing here: {bits:#x}"
                => "clear them; if they look random, the structure was not zeroed")
        }
        Rule::NotMultiple { what, offered, of } => {
            say!("{what}={offered} is no multiple of {of}" => "use a multiple of {of}")
        }
        Rule::NullPointer { what } => say!("{what} is NULL" => "{}", null_remedy(call, what)),
        Rule::ZeroLength { what } => say!("{what} is 0" => "give at least 1"),
        Rule::MissingField { what } => {
            say!("{what} is needed, but not given" => "set {what}, and its bit in comp_mask if it has one")
        }
        Rule::Conflict { what, with } => {
            say!("{what} and {with} exclude each other" => "give one of them")
        }
        Rule::CapAboveLimit { what, offered, limit, qp_type } => {
            let source = what.limit_of_cap().map_or("ibv_query_device tells", limit_source);
            let name = what.limit_of_cap().map_or_else(String::new, |limit| format!("{limit}="));
            say!("{what}={offered} exceeds {name}{limit} of {qp_type} queue pairs" => "use at most {limit} ({source})")
        }
        Rule::NotSupported { what: Field::QpType, value } => {
            let name = type_name(value);
            say!("this device has no {name} queue pairs" => "use IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD")
        }
        Rule::NotSupported { what, value } => {
            say!("{what}={value:#x} asks for something that this device does not have"
                => "ask ibv_query_device_ex what it has, and do without it")
        }
        Rule::NotForQpType { what, qp_type } => {
            say!("{what} has no meaning for {qp_type} queue pairs" => "{}", not_for_type(what, qp_type))
        }

        Rule::NotListedTransition { at, reachable } => not_listed(at, reachable),
        Rule::MissingAttrs { at, missing } => {
            let fields = fields(missing);
            let (qp_type, them) = (at.qp_type, it_or_them(missing));
            say!("attr_mask lacks {missing}, which {at} of {qp_type} queue pairs requires"
                => "set {fields} and add {them} to attr_mask")
        }
        Rule::ForbiddenAttrs { at, forbidden, allowed_in, first_in } => {
            let (qp_type, them) = (at.qp_type, it_or_them(forbidden));
            let what =
                format!("attr_mask has {forbidden}, which {at} of {qp_type} queue pairs does not take");
            let remedy = match (allowed_in.is_empty(), forbidden.iter().count()) {
                (false, _) => {
                    format!("leave {them} out here; {qp_type} queue pairs take {them} in {allowed_in}")
                }
                (true, 1) => format!("leave {them} out: {qp_type} queue pairs have no such attribute to set"),
                (true, _) if !first_in.is_empty() => {
                    let first = forbidden.iter().next().unwrap_or_default();
                    format!(
                        "leave them out here; no one move takes all of them: {first} belongs in {first_in}"
                    )
                }
                (true, _) => {
                    format!("leave {them} out here; no move of {qp_type} queue pairs takes all of them")
                }
            };
            Said { what, remedy }
        }
        Rule::StateMismatch { given, actual } if call == Call::SafeModify => {
            say!("the caller believed the queue pair to be in {given}, but it is in {actual}"
                => "if another thread has moved it, nothing is lost: ask ibv_query_qp, and decide anew from {actual}")
        }
        Rule::StateMismatch { given, actual } => {
            say!("cur_qp_state={given}, but the queue pair is in {actual}"
                => "ask ibv_query_qp for its state, or leave IBV_QP_CUR_STATE out")
        }
        Rule::StillDraining { at } => {
            say!("the send queue is still draining, so {at} cannot be made yet"
                => "wait for IBV_EVENT_SQ_DRAINED (ask for it with en_sqd_async_notify) or for sq_draining=0, then \
                    try again")
        }
        Rule::NoGrh { what, port } => {
            say!("{what}=0, but port {port} is Ethernet and needs a global route"
                => "set {what}=1 and fill in grh.dgid and grh.sgid_index")
        }
        Rule::GidIndexEmpty { port, index, valid } => {
            say!("entry {index} of port {port}'s GID table is empty"
                => "use an sgid_index that holds a GID: {valid}")
        }
        Rule::GidIndexBeyond { port, index, len, valid } => {
            say!("sgid_index={index}, but port {port}'s GID table has {len} entries"
                => "use an sgid_index that holds a GID: {valid}")
        }
        Rule::GidZero { what } => {
            say!("{what} is all zeros" => "fill in the GID that the peer got from ibv_query_gid")
        }
        Rule::PortMismatch { what, given, qp_port } => {
            say!("{what}={given}, but the path is on port {qp_port}" => "set {what}={qp_port}")
        }
        Rule::MtuAbovePort { offered, active_mtu, port } => {
            say!("path_mtu={offered} exceeds port {port}'s active_mtu={active_mtu}" => "use at most {active_mtu}")
        }
        Rule::NoRoute { dgid } => {
            say!("no route leads to {dgid}"
                => "check that the peer's GID is right and that sgid_index names a GID of a network that reaches it")
        }
        Rule::NeighbourUnresolved { dgid } => {
            say!("the neighbour {dgid} does not answer"
                => "check that the peer is up and on the network of this sgid_index (try ping)")
        }
        Rule::AtomicsUnsupported { what } => {
            say!("{what} has IBV_ACCESS_REMOTE_ATOMIC, but this device's atomic_cap is IBV_ATOMIC_NONE"
                => "leave the flag out")
        }

        Rule::WrongState { state, needs } => wrong_state(call, state, needs),
        Rule::QueueFull { queue, depth, silent } => queue_full(queue, depth, silent),
        Rule::TooManySges { queue, offered, max } => {
            let cap = sge_cap(queue);
            say!("num_sge={offered}, but the {queue} was created for {max}"
                => "use at most {max}, or create it with a greater {cap}")
        }
        Rule::InlineTooLarge { offered, max } => {
            say!("{offered} bytes inline, but the queue pair was created for {max}"
                => "send without IBV_SEND_INLINE, or create the queue pair with a greater cap.max_inline_data")
        }
        Rule::BadOpcode { opcode, qp_type } => {
            let them = types_for(opcode);
            say!("{qp_type} queue pairs cannot carry {opcode}" => "{them}")
        }
        Rule::BadAtomic { remote_addr, length } => {
            say!("an atomic on remote_addr={remote_addr:#x} with {length} local bytes"
                => "use a remote address that is a multiple of 8, and 8 local bytes")
        }
        Rule::MessageTooLong { offered, max } => {
            say!("the message has {offered} bytes, but at most {max} can be sent at once"
                => "send it in pieces of at most {max} bytes")
        }
        Rule::ReceivesComeFromSrq { srq } => {
            say!("the queue pair takes its receives from SRQ {srq:#x}" => "post there with ibv_post_srq_recv")
        }

        Rule::MrRange { addr, len } => {
            say!("{len} bytes from {addr:#x} on wrap around the address space" => "check addr and length")
        }
        Rule::MemoryNotMapped { addr, len } => {
            say!("not all of the {len} bytes from {addr:#x} on are mapped"
                => "register only memory that is allocated, and before it is freed")
        }
        Rule::MemoryNotWritable { addr, len } => {
            say!("not all of the {len} bytes from {addr:#x} on may be written"
                => "map the memory with PROT_WRITE, or register it without write access")
        }
        Rule::RemoteNeedsLocalWrite { access } => {
            say!("access={access:#x} permits remote writes or atomics, but not local writes"
                => "add IBV_ACCESS_LOCAL_WRITE")
        }
        Rule::MwBindNotPermitted { lkey } => {
            say!("the memory region with lkey {lkey:#x} does not permit memory windows"
                => "register it with IBV_ACCESS_MW_BIND")
        }
        Rule::KeyUnknown { lkey } => {
            say!("lkey {lkey:#x} names no memory region" => "give the lkey of a region that is registered")
        }
        Rule::NotOnDemand { lkey } => {
            say!("the memory region with lkey {lkey:#x} does not page on demand, so there is nothing to prefetch"
                => "register it with IBV_ACCESS_ON_DEMAND")
        }
        Rule::MwTypeMismatch { given, needs } => {
            let way = if needs == 1 { "ibv_bind_mw" } else { "a send request with IBV_WR_BIND_MW" };
            say!("the memory window is of type {given}, but {way} binds type {needs}"
                => "allocate it with IBV_MW_TYPE_{needs}")
        }

        Rule::LimitReached { kind, limit, held } => {
            let name = kind.limit().map_or_else(String::new, |name| format!("{name}="));
            say!("{name}{limit} {kind}s is the limit, and it is reached; this process holds {held}"
                => "destroy what is no longer used; a number that only grows is a leak")
        }
        Rule::NoMemory { kind, bytes } => {
            say!("{bytes} bytes for a new {kind} could not be had"
                => "ask for shorter queues, or free memory (/dev/shm included)")
        }
        Rule::MemlockExceeded { needed, limit } => {
            say!("{needed} bytes would be locked, but RLIMIT_MEMLOCK is {limit}"
                => "raise it (ulimit -l, or --ulimit memlock in containers)")
        }
        Rule::InUse { kind, handle, by_kind, count } => {
            let (verb, plural) = if count == 1 { ("uses", "") } else { ("use", "s") };
            say!("{count} {by_kind}{plural} still {verb} {kind} {handle:#x}" => "{}", in_use_remedy(by_kind, count))
        }
        Rule::BadHandle { kind, handle } => {
            say!("there is no {kind} {handle:#x}" => "check that it was created, and not destroyed before")
        }
        Rule::OtherContext { kind, handle } => {
            say!("{kind} {handle:#x} belongs to another open device"
                => "use objects of one ibv_context together")
        }
        Rule::OtherPd { kind, handle, pd, needs } => {
            say!("{kind} {handle:#x} belongs to PD {pd:#x}, but PD {needs:#x} is needed"
                => "create both in one protection domain")
        }
        Rule::ShrinksBelowUse { what, offered, held } => {
            say!("{what}={offered}, but {held} entries are in use" => "use at least {held}, or empty it first")
        }
        Rule::NotMulticast { gid } => {
            say!("{gid} is no multicast GID" => "use one that begins with ff")
        }
        Rule::NotAttached { gid } => {
            say!("the queue pair is not attached to {gid}"
                => "detach only what was attached with the same gid and lid")
        }
        Rule::ForkedChild { opened_by, caller } => {
            say!("process {caller} uses a device that process {opened_by} opened before fork"
                => "open the device again in the child")
        }
        Rule::DeviceGone {} => {
            say!("the device has stopped" => "destroy the objects, close the device and open it again")
        }
        Rule::NotPermitted { what } => {
            say!("this process may not set {what} so" => "use a value that needs no privilege")
        }
    }
}

fn out_of_range(what: Field, offered: u64, min: u64, max: u64) -> Said {
    let number =
        |value: u64| if what == Field::DestQpNum { format!("{value:#x}") } else { crate::signed(value) };
    let (offered, range) = (number(offered), format!("{}..{}", number(min), number(max)));
    let remedy = match what {
        Field::RnrRetry => "use 0 to 6, or 7 to try without end".to_string(),
        Field::Timeout | Field::AltTimeout => {
            "use 1 to 31 for 4.096 µs · 2^n (14 is 67 ms), or 0 to wait without end".to_string()
        }
        Field::PortNum | Field::AhPortNum | Field::AltPortNum | Field::AltAhPortNum if max == 1 => {
            "use 1: the device has one port, and ports are counted from 1".to_string()
        }
        Field::MinRnrTimer => {
            "use 0 to 31, a code of table 47: 1 is 0.01 ms, 12 is 0.64 ms, 31 is 491.52 ms, 0 is 655.36 ms"
                .into()
        }
        Field::PkeyIndex | Field::AltPkeyIndex if max == 0 => {
            "use 0: the port's P_Key table has one entry (pkey_tbl_len of ibv_query_port)".into()
        }
        Field::PkeyIndex | Field::AltPkeyIndex => {
            format!("use 0 to {max}: the port's P_Key table has {} entries", max + 1)
        }
        _ if min == max => format!("use {}", number(min)),
        _ => format!("use {} to {}", number(min), number(max)),
    };
    let fault = if min == max {
        format!(", but it can only be {}", number(min))
    } else {
        format!(" is out of {range}")
    };
    Said { what: format!("{what}={offered}{fault}"), remedy }
}

fn unknown_value(what: Field, value: u64) -> Said {
    let remedy = match (what, value) {
        (Field::PathMtu, 256 | 512 | 1024 | 2048 | 4096) => {
            format!("use IBV_MTU_{value}: path_mtu is no number of bytes")
        }
        (Field::QpType, _) => "use IBV_QPT_RC, IBV_QPT_UC or IBV_QPT_UD; a number like this means that ibv_qp_init_attr was not \
                               zeroed before it was filled in"
            .into(),
        _ => "use a constant of verbs.h; a number like this often means that the structure was not zeroed"
            .into(),
    };
    Said { what: format!("{what}={value} ({value:#x}) is no value of its enumeration"), remedy }
}

fn limit_source(limit: Limit) -> &'static str {
    match limit {
        Limit::ActiveMtu | Limit::MaxMsgSz | Limit::GidTblLen | Limit::PkeyTblLen => "ibv_query_port tells",
        Limit::MaxInlineData => "create the queue pair with less and read back what it got",
        Limit::NumCompVectors => "see num_comp_vectors of the ibv_context",
        Limit::RlimitMemlock => "ulimit -l tells",
        _ => "ibv_query_device tells",
    }
}

fn null_remedy(call: Call, what: Field) -> String {
    match (call, what) {
        (Call::CreateQp | Call::CreateQpEx, Field::SendCq | Field::RecvCq) => {
            format!("set {what}; one CQ can serve as both")
        }
        _ => "check that the call which made it succeeded".to_string(),
    }
}

fn not_for_type(what: Field, qp_type: QpType) -> String {
    match (qp_type, what) {
        (QpType::XrcSend, Field::MaxRecvWr | Field::MaxRecvSge | Field::RecvCq | Field::Srq) => {
            format!("leave {what} 0 or NULL: XRC_SEND has no receive queue")
        }
        (QpType::XrcRecv, Field::MaxSendWr | Field::MaxSendSge | Field::SendCq) => {
            format!("leave {what} 0 or NULL: XRC_RECV has no send queue")
        }
        _ => format!("leave {what} 0 or NULL"),
    }
}

fn not_listed(at: Transition, reachable: StateSet) -> Said {
    let Transition { qp_type, from, to } = at;
    let what = format!("{qp_type} queue pairs cannot go {at}");
    let remedy = match (from, to) {
        (QpState::Reset, QpState::Rtr) => "go RESET→INIT→RTR, one call a step".to_string(),
        (QpState::Reset, QpState::Rts) => "go RESET→INIT→RTR→RTS, one call a step".to_string(),
        (QpState::Init, QpState::Rts) => "go INIT→RTR→RTS, one call a step".to_string(),
        (QpState::Reset, QpState::Err) => "leave it: nothing is outstanding in RESET".to_string(),
        (_, QpState::Sqe) => "leave it to the device: it goes to SQE by itself when a send fails".to_string(),
        (QpState::Rts, QpState::Init | QpState::Rtr) => {
            format!("it is connected already; to connect anew go to RESET first, then to {to}")
        }
        (QpState::Err, _) => format!("only RESET leads out of ERR: go ERR→RESET, then on to {to}"),
        _ => format!("from {from} go to {reachable}"),
    };
    Said { what, remedy }
}

fn wrong_state(call: Call, state: QpState, needs: StateSet) -> Said {
    let remedy = match (call, state) {
        (Call::PostRecv, QpState::Reset) => {
            "move it to INIT first: receives can be posted from INIT on".to_string()
        }
        (Call::PostSend | Call::WrComplete, QpState::Reset | QpState::Init | QpState::Rtr) => {
            "move it to RTS first: sends can be posted from RTS on".to_string()
        }
        _ => format!("call it in {needs}"),
    };
    Said { what: format!("the queue pair is in {state}, where {call} is not allowed"), remedy }
}

/// A number that may be a type.
fn type_name(value: u64) -> String {
    let known = u32::try_from(value).ok().and_then(|value| QpType::try_from(value).ok());
    known.map_or_else(|| format!("qp_type={value}"), |qp_type| qp_type.to_string())
}

fn queue_full(queue: Queue, depth: u32, silent: u32) -> Said {
    let fault = format!("the {queue} is full: {depth} of {depth}");
    if silent == 0 {
        return Said { what: fault, remedy: full_remedy(queue).to_string() };
    }
    Said {
        what: format!("{fault}, {silent} of them done but not signaled"),
        remedy: "set IBV_SEND_SIGNALED at least once in max_send_wr requests, and poll its completion: that gives back \
                 the places of those before it"
            .to_string(),
    }
}

fn full_remedy(queue: Queue) -> &'static str {
    match queue {
        Queue::Send => {
            "poll completions before posting more (a request that is not signaled leaves its place when a later one \
             that is signaled is polled), or create the queue pair with a greater cap.max_send_wr"
        }
        Queue::Recv => {
            "wait for receives to complete, or create the queue pair with a greater cap.max_recv_wr"
        }
        Queue::Srq => "wait for receives to complete, or create the SRQ with a greater srq_attr.max_wr",
        Queue::Cq => "poll it more often, or create it with a greater cqe",
    }
}

fn sge_cap(queue: Queue) -> Field {
    match queue {
        Queue::Send | Queue::Cq => Field::MaxSendSge,
        Queue::Recv => Field::MaxRecvSge,
        Queue::Srq => Field::SrqMaxSge,
    }
}

fn in_use_remedy(by_kind: ObjectKind, count: u32) -> String {
    match by_kind {
        ObjectKind::Event => {
            "acknowledge every event that was taken (ibv_ack_cq_events, ibv_ack_async_event)".into()
        }
        _ if count == 1 => format!("destroy that {by_kind} first"),
        _ => format!("destroy those {by_kind}s first"),
    }
}

fn types_for(opcode: WrOpcode) -> String {
    use WrOpcode as Op;
    let types = match opcode {
        Op::Send | Op::SendWithImm => "RC, UC, UD or XRC_SEND",
        Op::RdmaWrite | Op::RdmaWriteWithImm => "RC, UC or XRC_SEND",
        Op::BindMw | Op::LocalInv | Op::SendWithInv => "RC or UC",
        Op::Tso => "RAW_PACKET",
        Op::Driver1 => return "leave it to the driver: programs have no use for it".to_string(),
        Op::RdmaRead | Op::AtomicCmpAndSwp | Op::AtomicFetchAndAdd | Op::Flush | Op::AtomicWrite => {
            "RC or XRC_SEND"
        }
    };
    format!("use a queue pair of type {types}")
}

/// `path_mtu, ah_attr and rq_psn`: the fields that stand behind bits of the mask.
fn fields(mask: AttrMask) -> String {
    let names: Vec<_> = mask.iter().map(crate::field).collect();
    match names.as_slice() {
        [] => "nothing".to_string(),
        [one] => (*one).to_string(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

fn it_or_them(mask: AttrMask) -> &'static str {
    if mask.iter().count() == 1 { "it" } else { "them" }
}
