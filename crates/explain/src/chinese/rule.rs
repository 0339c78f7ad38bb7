//! A sentence for each rule.

use glassnic_events::{
    AttrMask, Call, Field, Limit, ObjectKind, QpState, QpType, Queue, Rule, StateSet, Transition,
    TransitionSet, WrOpcode,
};

use super::{list, queue_name};
use crate::Said;

/// `say!("what" => "remedy")`, both as for `format!`.
macro_rules! say {
    ($what:literal => $remedy:literal $(, $value:expr)?) => {
        Said { what: format!($what), remedy: format!($remedy $(, $value)?) }
    };
}

/// The dictionary: one arm a rule, in the order in which rules are declared.
#[expect(clippy::too_many_lines, reason = "one short arm a rule")]
pub(crate) fn say(call: Call, rule: &Rule) -> Said {
    match *rule {
        Rule::ExceedsLimit { what, offered, limit, limit_name } => {
            let source = limit_source(limit_name);
            say!("{what}={offered} 超过上限 {limit_name}={limit}" => "最大为 {limit}（{source}）")
        }
        Rule::OutOfRange { what, offered, min, max } => out_of_range(what, offered, min, max),
        Rule::UnknownValue { what, value } => unknown_value(what, value),
        Rule::UnknownBits { what, bits } => {
            say!("{what} 含有未定义的位：{bits:#x}" => "清除这些位；如果看起来是随机值，说明结构体没有清零")
        }
        Rule::NotMultiple { what, offered, of } => {
            say!("{what}={offered} 不是 {of} 的倍数" => "使用 {of} 的倍数")
        }
        Rule::NullPointer { what } => say!("{what} 为 NULL" => "{}", null_remedy(call, what)),
        Rule::ZeroLength { what } => say!("{what} 为 0" => "至少为 1"),
        Rule::MissingField { what } => {
            say!("缺少必需的 {what}" => "设置 {what}，如果它在 comp_mask 中有对应的位，也要置位")
        }
        Rule::Conflict { what, with } => say!("{what} 与 {with} 互斥" => "只能给出其中一个"),
        Rule::CapAboveLimit { what, offered, limit, qp_type } => {
            let source = what.limit_of_cap().map_or("见 ibv_query_device", limit_source);
            let name = what.limit_of_cap().map_or_else(String::new, |limit| format!("{limit}="));
            say!("{what}={offered} 超过 {qp_type} QP 的上限 {name}{limit}" => "最大为 {limit}（{source}）")
        }
        Rule::NotSupported { what: Field::QpType, value } => {
            let name = type_name(value);
            say!("本设备不支持 {name} 类型的 QP" => "使用 IBV_QPT_RC、IBV_QPT_UC 或 IBV_QPT_UD")
        }
        Rule::NotSupported { what, value } => {
            say!("{what}={value:#x} 要求的功能本设备没有" => "用 ibv_query_device_ex 查询设备能力，不要使用这项功能")
        }
        Rule::NotForQpType { what, qp_type } => {
            say!("{what} 对 {qp_type} QP 没有意义" => "{}", not_for_type(what, qp_type))
        }

        Rule::NotListedTransition { at, reachable } => not_listed(at, reachable),
        Rule::MissingAttrs { at, missing } => {
            let (fields, qp_type) = (fields(missing), at.qp_type);
            say!("attr_mask 缺少 {missing}，{qp_type} QP 的 {at} 必须给出"
                => "设置 {fields}，并在 attr_mask 中置上对应的位")
        }
        Rule::ForbiddenAttrs { at, forbidden, allowed_in, first_in } => {
            forbidden_attrs(at, forbidden, allowed_in, first_in)
        }
        Rule::StateMismatch { given, actual } if call == Call::SafeModify => {
            say!("调用者以为 QP 处于 {given}，但它实际处于 {actual}"
                => "若是其他线程已改变其状态，则无需担心：用 ibv_query_qp 查询，从 {actual} 出发重新决定")
        }
        Rule::StateMismatch { given, actual } => {
            say!("cur_qp_state={given}，但 QP 实际处于 {actual}"
                => "用 ibv_query_qp 查询其状态，或者去掉 IBV_QP_CUR_STATE")
        }
        Rule::StillDraining { at } => {
            say!("发送队列仍在排空（drain），现在不能执行 {at}"
                => "等待 IBV_EVENT_SQ_DRAINED（用 en_sqd_async_notify 订阅）或 sq_draining=0，然后重试")
        }
        Rule::NoGrh { what, port } => {
            say!("{what}=0，但端口 {port} 是以太网，必须有 GRH"
                => "设 {what}=1，并填写 grh.dgid 和 grh.sgid_index")
        }
        Rule::GidIndexEmpty { port, index, valid } => {
            let valid = list(valid.iter());
            say!("端口 {port} 的 GID 表第 {index} 项为空" => "使用有 GID 的 sgid_index：{valid}")
        }
        Rule::GidIndexBeyond { port, index, len, valid } => {
            let valid = list(valid.iter());
            say!("sgid_index={index}，但端口 {port} 的 GID 表只有 {len} 项"
                => "使用有 GID 的 sgid_index：{valid}")
        }
        Rule::GidZero { what } => say!("{what} 全为零" => "填写对端用 ibv_query_gid 得到的 GID"),
        Rule::PortMismatch { what, given, qp_port } => {
            say!("{what}={given}，但该路径在端口 {qp_port} 上" => "设 {what}={qp_port}")
        }
        Rule::MtuAbovePort { offered, active_mtu, port } => {
            say!("path_mtu={offered} 超过端口 {port} 的 active_mtu={active_mtu}" => "最大为 {active_mtu}")
        }
        Rule::NoRoute { dgid } => {
            say!("没有到 {dgid} 的路由" => "检查对端的 GID 是否正确，sgid_index 所指 GID 的网络能否到达对端")
        }
        Rule::NeighbourUnresolved { dgid } => {
            say!("邻居 {dgid} 没有应答（ARP/ND 解析失败）"
                => "检查对端是否在线、是否在该 sgid_index 所在的网络中（可用 ping 试）")
        }
        Rule::AtomicsUnsupported { what } => {
            say!("{what} 含有 IBV_ACCESS_REMOTE_ATOMIC，但本设备的 atomic_cap 为 IBV_ATOMIC_NONE"
                => "去掉这个标志")
        }

        Rule::WrongState { state, needs } => wrong_state(call, state, needs),
        Rule::QueueFull { queue, depth, silent } => queue_full(queue, depth, silent),
        Rule::TooManySges { queue, offered, max } => {
            let (queue, cap) = (queue_name(queue), sge_cap(queue));
            say!("num_sge={offered}，但{queue}创建时只允许 {max} 个" => "最多用 {max} 个，或者创建时把 {cap} 设大")
        }
        Rule::InlineTooLarge { offered, max } => {
            say!("内联数据有 {offered} 字节，但 QP 创建时只允许 {max} 字节"
                => "不用 IBV_SEND_INLINE 发送，或者创建 QP 时把 cap.max_inline_data 设大")
        }
        Rule::BadOpcode { opcode, qp_type } => {
            let types = types_for(opcode);
            say!("{qp_type} QP 不支持 {opcode}" => "{types}")
        }
        Rule::BadAtomic { remote_addr, length } => {
            say!("原子操作的 remote_addr={remote_addr:#x}，本地长度 {length} 字节"
                => "远端地址必须是 8 的倍数，本地长度必须是 8 字节")
        }
        Rule::MessageTooLong { offered, max } => {
            say!("消息有 {offered} 字节，但一次最多发送 {max} 字节" => "分段发送，每段不超过 {max} 字节")
        }
        Rule::ReceivesComeFromSrq { srq } => {
            say!("该 QP 从 SRQ {srq:#x} 取接收请求" => "用 ibv_post_srq_recv 提交到该 SRQ")
        }

        Rule::MrRange { addr, len } => {
            say!("从 {addr:#x} 开始的 {len} 字节越过了地址空间末尾" => "检查 addr 和 length")
        }
        Rule::MemoryNotMapped { addr, len } => {
            say!("从 {addr:#x} 开始的 {len} 字节没有全部映射" => "只注册已分配且尚未释放的内存")
        }
        Rule::MemoryNotWritable { addr, len } => {
            say!("从 {addr:#x} 开始的 {len} 字节不是全部可写" => "用 PROT_WRITE 映射，或者注册时不要写权限")
        }
        Rule::RemoteNeedsLocalWrite { access } => {
            say!("access={access:#x} 允许远程写或原子操作，却不允许本地写" => "加上 IBV_ACCESS_LOCAL_WRITE")
        }
        Rule::MwBindNotPermitted { lkey } => {
            say!("lkey {lkey:#x} 所属的 MR 不允许绑定 MW" => "注册时加上 IBV_ACCESS_MW_BIND")
        }
        Rule::KeyUnknown { lkey } => {
            say!("lkey {lkey:#x} 不对应任何 MR" => "使用已注册的 MR 的 lkey")
        }
        Rule::NotOnDemand { lkey } => {
            say!("lkey {lkey:#x} 所属 MR 不是按需分页的（ODP），没有可预取的内容" => "注册 MR 时加上 IBV_ACCESS_ON_DEMAND")
        }
        Rule::MwTypeMismatch { given, needs } => {
            let way = if needs == 1 { "ibv_bind_mw" } else { "IBV_WR_BIND_MW 发送请求" };
            say!("MW 是 type {given}，但 {way} 绑定的是 type {needs}" => "用 IBV_MW_TYPE_{needs} 分配")
        }

        Rule::LimitReached { kind, limit, held } => {
            let name = kind.limit().map_or_else(String::new, |name| format!("{name}="));
            let kind = kind_name(kind);
            say!("已达上限 {name}{limit} 个 {kind}；本进程持有 {held} 个" => "销毁不再使用的；只增不减就是泄漏")
        }
        Rule::NoMemory { kind, bytes } => {
            let kind = kind_name(kind);
            say!("新建 {kind} 需要的 {bytes} 字节无法分配" => "减小队列深度，或者释放内存（包括 /dev/shm）")
        }
        Rule::MemlockExceeded { needed, limit } => {
            say!("需要锁定 {needed} 字节，但 RLIMIT_MEMLOCK 为 {limit}"
                => "调大它（ulimit -l，容器中用 --ulimit memlock）")
        }
        Rule::InUse { kind, handle, by_kind, count } => {
            let (kind, by) = (kind_name(kind), kind_name(by_kind));
            let remedy = match by_kind {
                ObjectKind::Event => {
                    "确认取走的每个事件（ibv_ack_cq_events、ibv_ack_async_event）".to_string()
                }
                _ => format!("先销毁这些 {by}"),
            };
            say!("仍有 {count} 个 {by} 在使用 {kind} {handle:#x}" => "{remedy}")
        }
        Rule::BadHandle { kind, handle } => {
            let kind = kind_name(kind);
            say!("没有 {kind} {handle:#x}" => "检查它是否创建成功，是否已经销毁")
        }
        Rule::OtherContext { kind, handle } => {
            let kind = kind_name(kind);
            say!("{kind} {handle:#x} 属于另一个打开的设备" => "只能一起使用同一个 ibv_context 的对象")
        }
        Rule::OtherPd { kind, handle, pd, needs } => {
            let kind = kind_name(kind);
            say!("{kind} {handle:#x} 属于 PD {pd:#x}，但需要 PD {needs:#x}" => "在同一个 PD 中创建两者")
        }
        Rule::ShrinksBelowUse { what, offered, held } => {
            say!("{what}={offered}，但有 {held} 项正在使用" => "至少为 {held}，或者先清空")
        }
        Rule::NotMulticast { gid } => say!("{gid} 不是组播 GID" => "使用以 ff 开头的 GID"),
        Rule::NotAttached { gid } => {
            say!("QP 没有加入组播组 {gid}" => "detach 的 gid 和 lid 必须与 attach 时相同")
        }
        Rule::ForkedChild { opened_by, caller } => {
            say!("进程 {caller} 使用了进程 {opened_by} 在 fork 之前打开的设备" => "在子进程中重新打开设备")
        }
        Rule::DeviceGone {} => say!("设备已停止" => "销毁所有对象，关闭设备后重新打开"),
        Rule::NotPermitted { what } => {
            say!("本进程没有权限这样设置 {what}" => "使用不需要特权的值")
        }
    }
}

fn out_of_range(what: Field, offered: u64, min: u64, max: u64) -> Said {
    let number =
        |value: u64| if what == Field::DestQpNum { format!("{value:#x}") } else { crate::signed(value) };
    let remedy = match what {
        Field::RnrRetry => "使用 0 到 6，7 表示无限重试".to_string(),
        Field::Timeout | Field::AltTimeout => {
            "使用 1 到 31，表示 4.096 µs · 2^n（14 为 67 ms），0 表示无限等待".to_string()
        }
        Field::PortNum | Field::AhPortNum | Field::AltPortNum | Field::AltAhPortNum if max == 1 => {
            "使用 1：设备只有一个端口，端口从 1 开始编号".to_string()
        }
        Field::MinRnrTimer => {
            "使用 0 到 31，含义见表 47：1 为 0.01 ms，12 为 0.64 ms，31 为 491.52 ms，0 为 655.36 ms"
                .to_string()
        }
        Field::PkeyIndex | Field::AltPkeyIndex => {
            format!(
                "端口的 P_Key 表有 {} 项（ibv_query_port 的 pkey_tbl_len）：使用 {}",
                max + 1,
                span(0, max)
            )
        }
        _ => format!(
            "使用 {}",
            if min == max { number(min) } else { format!("{} 到 {}", number(min), number(max)) }
        ),
    };
    let offered = number(offered);
    let what = if min == max {
        format!("{what}={offered}，但只能是 {}", number(min))
    } else {
        format!("{what}={offered} 超出范围 {}..{}", number(min), number(max))
    };
    Said { what, remedy }
}

fn span(min: u64, max: u64) -> String {
    if min == max { min.to_string() } else { format!("{min} 到 {max}") }
}

fn unknown_value(what: Field, value: u64) -> Said {
    let remedy = match (what, value) {
        (Field::PathMtu, 256 | 512 | 1024 | 2048 | 4096) => {
            format!("使用 IBV_MTU_{value}：path_mtu 是枚举值，不是字节数")
        }
        (Field::QpType, _) => {
            "使用 IBV_QPT_RC、IBV_QPT_UC 或 IBV_QPT_UD；出现这样的数，说明 ibv_qp_init_attr 在填写之前没有清零".into()
        }
        _ => "使用 verbs.h 中的常量；出现这样的数，常常是因为结构体没有清零".into(),
    };
    Said { what: format!("{what}={value}（{value:#x}）不是有效的枚举值"), remedy }
}

fn limit_source(limit: Limit) -> &'static str {
    match limit {
        Limit::ActiveMtu | Limit::MaxMsgSz | Limit::GidTblLen | Limit::PkeyTblLen => "见 ibv_query_port",
        Limit::MaxInlineData => "可先用较小的值创建 QP，再读回实际得到的值",
        Limit::NumCompVectors => "见 ibv_context 的 num_comp_vectors",
        Limit::RlimitMemlock => "见 ulimit -l",
        _ => "见 ibv_query_device",
    }
}

fn null_remedy(call: Call, what: Field) -> String {
    match (call, what) {
        (Call::CreateQp | Call::CreateQpEx, Field::SendCq | Field::RecvCq) => {
            format!("设置 {what}；收发可以共用一个 CQ")
        }
        _ => "检查创建它的调用是否成功".to_string(),
    }
}

fn not_for_type(what: Field, qp_type: QpType) -> String {
    match (qp_type, what) {
        (QpType::XrcSend, Field::MaxRecvWr | Field::MaxRecvSge | Field::RecvCq | Field::Srq) => {
            format!("{what} 应为 0 或 NULL：XRC_SEND 没有接收队列")
        }
        (QpType::XrcRecv, Field::MaxSendWr | Field::MaxSendSge | Field::SendCq) => {
            format!("{what} 应为 0 或 NULL：XRC_RECV 没有发送队列")
        }
        _ => format!("{what} 应为 0 或 NULL"),
    }
}

fn type_name(value: u64) -> String {
    let known = u32::try_from(value).ok().and_then(|value| QpType::try_from(value).ok());
    known.map_or_else(|| format!("qp_type={value}"), |qp_type| qp_type.to_string())
}

fn not_listed(at: Transition, reachable: StateSet) -> Said {
    let Transition { qp_type, from, to } = at;
    let remedy = match (from, to) {
        (QpState::Reset, QpState::Rtr) => "应走 RESET→INIT→RTR，每步调用一次".to_string(),
        (QpState::Reset, QpState::Rts) => "应走 RESET→INIT→RTR→RTS，每步调用一次".to_string(),
        (QpState::Init, QpState::Rts) => "应走 INIT→RTR→RTS，每步调用一次".to_string(),
        (QpState::Reset, QpState::Err) => "不必转换：RESET 中没有未完成的请求".to_string(),
        (_, QpState::Sqe) => "不能由程序转换：发送失败时设备会自己进入 SQE".to_string(),
        (QpState::Rts, QpState::Init | QpState::Rtr) => {
            format!("它已经连接；要重新连接，先转到 RESET，再到 {to}")
        }
        (QpState::Err, _) => format!("ERR 只能转到 RESET：先 ERR→RESET，再到 {to}"),
        _ => format!("从 {from} 可以转到 {}", list(reachable.iter())),
    };
    Said { what: format!("{qp_type} QP 不能从 {from} 转到 {to}"), remedy }
}

fn forbidden_attrs(
    at: Transition,
    forbidden: AttrMask,
    allowed_in: TransitionSet,
    first_in: TransitionSet,
) -> Said {
    let qp_type = at.qp_type;
    let arrows = |set: TransitionSet| list(set.iter().map(|(from, to)| Transition { qp_type, from, to }));
    let remedy = match (allowed_in.is_empty(), forbidden.iter().count()) {
        (false, _) => format!("这里不要给出；{qp_type} QP 在 {} 中可以设置", arrows(allowed_in)),
        (true, 1) => format!("不要给出：{qp_type} QP 没有这个可设置的属性"),
        (true, _) if !first_in.is_empty() => {
            let first = forbidden.iter().next().unwrap_or_default();
            format!("这里不要给出；没有任何一种转换能同时设置它们：{first} 属于 {}", arrows(first_in))
        }
        (true, _) => format!("这里不要给出；{qp_type} QP 没有任何一种转换能同时设置它们"),
    };
    Said { what: format!("attr_mask 含有 {forbidden}，{qp_type} QP 的 {at} 不接受"), remedy }
}

fn wrong_state(call: Call, state: QpState, needs: StateSet) -> Said {
    let remedy = match (call, state) {
        (Call::PostRecv, QpState::Reset) => "先转到 INIT：从 INIT 起才能提交接收请求".to_string(),
        (Call::PostSend | Call::WrComplete, QpState::Reset | QpState::Init | QpState::Rtr) => {
            "先转到 RTS：从 RTS 起才能提交发送请求".to_string()
        }
        _ => format!("在 {} 状态下调用", list(needs.iter())),
    };
    Said { what: format!("QP 处于 {state}，此时不允许 {call}"), remedy }
}

fn queue_full(queue: Queue, depth: u32, silent: u32) -> Said {
    let name = queue_name(queue);
    let fault = format!("{name}已满：{depth}/{depth}");
    if silent > 0 {
        return Said {
            what: format!("{fault}，其中 {silent} 个已经做完但没有要求完成通知（unsignaled）"),
            remedy:
                "每 max_send_wr 个请求中至少有一个设 IBV_SEND_SIGNALED，并取走它的完成：它之前的请求由此释放"
                    .to_string(),
        };
    }
    let remedy = match queue {
        Queue::Send => {
            "先取走完成再提交（没有 signaled 的请求要等其后 signaled 的请求的完成被取走才释放），或者创建 QP 时把 \
             cap.max_send_wr 设大"
        }
        Queue::Recv => "等待接收完成，或者创建 QP 时把 cap.max_recv_wr 设大",
        Queue::Srq => "等待接收完成，或者创建 SRQ 时把 srq_attr.max_wr 设大",
        Queue::Cq => "更频繁地轮询，或者创建时把 cqe 设大",
    };
    Said { what: fault, remedy: remedy.to_string() }
}

fn sge_cap(queue: Queue) -> Field {
    match queue {
        Queue::Send | Queue::Cq => Field::MaxSendSge,
        Queue::Recv => Field::MaxRecvSge,
        Queue::Srq => Field::SrqMaxSge,
    }
}

pub(crate) fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::CompChannel => "完成通道",
        ObjectKind::Event => "未确认的事件",
        ObjectKind::WorkRequest => "工作请求",
        ObjectKind::Device => "设备",
        ObjectKind::Port => "端口",
        ObjectKind::McastGroup => "组播组",
        ObjectKind::Xrcd => "XRC 域",
        ObjectKind::Td => "线程域",
        ObjectKind::ParentDomain => "父域",
        ObjectKind::Dm => "设备内存",
        known => known.name(),
    }
}

fn types_for(opcode: WrOpcode) -> String {
    use WrOpcode as Op;
    let types = match opcode {
        Op::Send | Op::SendWithImm => "RC、UC、UD 或 XRC_SEND",
        Op::RdmaWrite | Op::RdmaWriteWithImm => "RC、UC 或 XRC_SEND",
        Op::BindMw | Op::LocalInv | Op::SendWithInv => "RC 或 UC",
        Op::Tso => "RAW_PACKET",
        Op::Driver1 => return "留给驱动使用：程序用不到它".to_string(),
        Op::RdmaRead | Op::AtomicCmpAndSwp | Op::AtomicFetchAndAdd | Op::Flush | Op::AtomicWrite => {
            "RC 或 XRC_SEND"
        }
    };
    format!("使用 {types} 类型的 QP")
}

/// `path_mtu、ah_attr 和 rq_psn`.
fn fields(mask: AttrMask) -> String {
    let names: Vec<_> = mask.iter().map(crate::field).collect();
    match names.as_slice() {
        [] => "无".to_string(),
        [one] => (*one).to_string(),
        [head @ .., last] => format!("{} 和 {last}", head.join("、")),
    }
}
