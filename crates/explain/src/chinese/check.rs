//! A sentence for each check that can be the first cause of a queue pair's error.

use glassnic_events::{Check, FirstCause, KeyAccess, PathAttrs};

use crate::{Said, milliseconds, overrun};

/// What failed, which request it was, and what to do about it.
pub(crate) fn say(cause: &FirstCause) -> Said {
    let FirstCause { wr_id, psn, status, check } = *cause;
    let request = wr_id.map_or_else(String::new, |wr_id| format!("请求 wr_id={wr_id:#x}："));
    let place = psn.map_or_else(String::new, |psn| format!("，PSN {psn:#x}"));
    let (what, remedy) = words(check);
    Said { what: format!("{request}{what}{place}（{status}）"), remedy: remedy.to_string() }
}

/// Where the peer was looked for, and for how long.
pub(crate) fn path(check: Check, path: &PathAttrs) -> String {
    let PathAttrs { dgid, sgid_index, path_mtu, dest_qp_num, timeout, retry_cnt, rnr_retry, .. } = *path;
    let peer = format!("对端为 dest_qp_num={dest_qp_num:#x}，dgid={dgid}，本端 sgid_index={sgid_index}");
    match (check, path.ack_timeout_ns, path.detection_ns()) {
        (Check::RetryExhausted, Some(once), Some(all)) => format!(
            "{peer}，path_mtu={path_mtu}；timeout={timeout}（{}）×（1 + retry_cnt={retry_cnt}），{} 后放弃",
            milliseconds(once),
            milliseconds(all)
        ),
        (Check::RnrExhausted, ..) => format!("{peer}；rnr_retry={rnr_retry}"),
        _ => peer,
    }
}

/// What was accessed, and what the key permits.
pub(crate) fn access(access: &KeyAccess) -> String {
    let KeyAccess { key, addr, len, pd, region, .. } = *access;
    let tried = format!("用 key {key:#x} 访问 {addr:#x} 开始的 {len} 字节");
    let Some(region) = region else { return tried };
    let (start, length) = (region.start, region.len);
    let place = format!("{tried}，而 MR 是 {start:#x} 开始的 {length} 字节");
    if region.other_key {
        return format!("{tried}，但这是某个 MR 的另一个 key：lkey 和 rkey 不同");
    }
    match access.check {
        Check::LkeyPd | Check::RkeyPd => {
            format!("{tried}，MR 在 PD {:#x} 中，QP 在 PD {pd:#x} 中", region.pd)
        }
        Check::LkeyAccess | Check::RkeyAccess => {
            format!("{tried}，注册 MR 时的权限为 access={:#x}", region.access)
        }
        Check::LkeyBounds | Check::RkeyBounds => match overrun(access) {
            Some(over) => format!("{place}：超出 {over} 字节"),
            None => place,
        },
        _ => place,
    }
}

/// What failed, without a remedy.
pub(crate) fn name(check: Check) -> &'static str {
    words(check).0
}

/// What failed, and what to do about it.
pub(crate) fn words(check: Check) -> (&'static str, &'static str) {
    match check {
        Check::None => ("没有检查失败", "无需处理"),
        Check::LkeyUnknown => {
            ("lkey 不对应任何 MR", "使用已注册 MR 的 lkey，并且等到完成之后再调用 ibv_dereg_mr")
        }
        Check::LkeyPd => ("lkey 属于另一个 PD", "在同一个 PD 中注册 MR 和创建 QP"),
        Check::LkeyBounds => ("缓冲区超出 lkey 所属 MR 的范围", "对照 MR 检查 sge.addr 和 sge.length"),
        Check::LkeyAccess => {
            ("lkey 所属 MR 没有 IBV_ACCESS_LOCAL_WRITE 权限", "注册 MR 时加上 IBV_ACCESS_LOCAL_WRITE")
        }
        Check::MemoryGone => ("内存已不再映射", "请求完成之前不要解除内存映射"),
        Check::RkeyUnknown => {
            ("rkey 不对应任何 MR", "传给对端的应是 rkey（不是 lkey），并且等到最后一次访问之后再注销 MR")
        }
        Check::RkeyPd => ("rkey 属于另一个 PD", "在同一个 PD 中注册 MR 和创建 QP"),
        Check::RkeyBounds => ("访问超出 rkey 所属 MR 的范围", "对照对端的 MR 检查 remote_addr 和长度"),
        Check::RkeyAccess => (
            "rkey 所属 MR 不允许这种访问",
            "对端注册 MR 时按操作加上 IBV_ACCESS_REMOTE_READ、_WRITE 或 _ATOMIC",
        ),
        Check::QpAccess => (
            "响应方的 qp_access_flags 不允许这种访问",
            "让响应方 QP 的 qp_access_flags 与其 MR 的远程权限一致",
        ),
        Check::MwOtherQp => ("MW 绑定在另一个 QP 上", "type 2 MW 只能通过绑定它的 QP 使用"),
        Check::MwUnbound => ("MW 尚未绑定", "先绑定 MW 再使用其 rkey，用完之后再使其失效"),
        Check::AtomicUnaligned => ("原子操作的地址不是 8 的倍数", "使用 8 字节对齐的地址"),
        Check::RkeyInvalidated => (
            "rkey 已失效（invalidate），或其 MR 已注销",
            "最后一次访问之后再使 rkey 失效或注销 MR，然后把新的 rkey 发给对端",
        ),
        Check::InvalidateRefused => ("该 key 不能由对端失效", "只能使已绑定的 type 2 MW 的 key 失效"),
        Check::ReceiveTooSmall => {
            ("已提交的接收缓冲区小于消息", "接收缓冲区应不小于最长的消息（UD 另加 40 字节 GRH）")
        }
        Check::NoReceive => {
            ("没有已提交的接收请求", "在对端发送之前提交接收请求；带立即数的写也要消耗一个接收请求")
        }
        Check::TooManyReads => (
            "未完成的 RDMA READ 和原子操作多于 max_dest_rd_atomic",
            "请求方的 max_rd_atomic 不能大于响应方的 max_dest_rd_atomic",
        ),
        Check::OpcodeSequence => {
            ("报文的操作码接不上前一个报文", "检查是否有两个 QP 向这个 QP 发送，或者 PSN 被重新设置过")
        }
        Check::OpcodeUnsupported => ("这个 QP 不支持该操作码", "两端 QP 的类型应一致"),
        Check::PacketLength => ("报文长度与操作码、报文头或 path MTU 不符", "两端 QP 的 path_mtu 应一致"),
        Check::MessageTooLong => {
            ("消息超过该服务能承载的长度", "分段发送：每段不超过 max_msg_sz 字节，UD 不超过 path MTU")
        }
        Check::SrqUnknown => {
            ("SRQ 号不对应任何 XRC SRQ", "使用对端 ibv_get_srq_num 返回的号，且该 SRQ 必须还在")
        }
        Check::NoResources => ("响应方资源不足", "检查响应方：内存或队列项已耗尽"),
        Check::RetryExhausted => (
            "重传次数用尽仍没有收到确认",
            "检查对端：它的 QP 是否在 RTR 或 RTS，dest_qp_num 是否是它的 QP 号，它的 rq_psn 是否等于我方的 sq_psn，dgid \
             是否是它的 GID，路径能否承载 path_mtu",
        ),
        Check::RnrExhausted => (
            "RNR 重试次数（rnr_retry）用尽，对端仍未就绪",
            "对端应更早提交接收请求，或设 rnr_retry=7 表示无限重试",
        ),
        Check::NakInvalidRequest => {
            ("对端回复 NAK：无效请求", "查看对端 QP 的首个错误原因：那里写明是哪项检查失败")
        }
        Check::NakRemoteAccess => {
            ("对端回复 NAK：远程访问错误", "查看对端 QP 的首个错误原因：那里写明是哪项检查失败")
        }
        Check::NakRemoteOperational => {
            ("对端回复 NAK：远程操作错误", "查看对端 QP 的首个错误原因：那里写明是哪项检查失败")
        }
        Check::BadResponse => ("响应与请求不符", "检查是否有两个 QP 在应答同一个 QP，或者 PSN 被重新设置过"),
        Check::BadAh => ("AH 不可用", "使用该 AH 的发送完成之后再销毁它，并且与 QP 在同一个 PD 中"),
        Check::MwBind => (
            "MW 不能这样绑定",
            "使用该 MW 自己的 rkey（ibv_inc_rkey 只改变低 8 位）和已注册的 MR；type 1 MW 不能用 ZERO_BASED",
        ),
        Check::MwBindRight => ("MW 所在的 MR 没有 IBV_ACCESS_MW_BIND", "注册 MR 时加上 IBV_ACCESS_MW_BIND"),
        Check::MwBindLocalWrite => (
            "MW 允许远程写，而其 MR 不允许本地写",
            "注册 MR 时加上 IBV_ACCESS_LOCAL_WRITE，或绑定时不要远程写和原子操作权限",
        ),
        Check::MwBindPd => ("MW、MR 和 QP 不在同一个 PD 中", "在同一个 PD 中创建 MW、MR 和 QP"),
        Check::MwBindBounds => ("MW 超出其 MR 的范围", "对照 MR 检查 bind_info.addr 和 bind_info.length"),
        Check::MwBound => (
            "type 2 MW 只能通过失效（invalidate）解除绑定",
            "再次绑定 type 2 MW 之前先提交 IBV_WR_LOCAL_INV；长度为 0 的绑定只能解除 type 1 MW",
        ),
        Check::OwnInvalidateRefused => (
            "该 key 不属于已绑定的 type 2 MW",
            "只能使 type 2 MW 失效；MR 用 ibv_dereg_mr 注销，type 1 MW 用长度为 0 的绑定解除",
        ),
        Check::NoPath => ("没有通往目的地的链路", "检查 dgid 和 sgid_index：本设备没有链路通到那里"),
        Check::BadOperation => {
            ("QP 不能执行该操作", "使用这种 QP 类型支持的操作，并且 max_rd_atomic 要大于 0")
        }
        Check::ModifiedToErr => ("程序把 QP 改到了 ERR", "这是程序自己要求的；被刷新的请求不是故障"),
        Check::CqOverrun => ("CQ 溢出", "CQ 的大小应容得下所有可能同时完成的请求，或者更频繁地轮询"),
        Check::PeerGone => ("对端已经不在", "检查对端进程为何退出"),
        Check::DeviceFatal => ("设备已停止", "关闭设备后重新打开"),
        Check::Provoked => {
            ("有人用 glassnic event 要求致命错误", "没有问题：这是为了看程序如何应对队列对的致命错误")
        }
        Check::Flushed => ("因更早的错误而被刷新（flush）", "查看在它之前发生了什么：flush 从来不是原因"),
    }
}
