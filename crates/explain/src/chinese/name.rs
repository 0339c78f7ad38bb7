//! What causes, NAKs and dropped packets are called.

use glassnic_events::{Cause, DropReason, NakCode};

pub(crate) const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Modify => "由程序修改",
        Cause::RequesterError => "一个发送请求失败",
        Cause::ResponderError => "一个收到的请求失败",
        Cause::CqOverrun => "它的 CQ 溢出",
        Cause::Drained => "发送队列已排空",
        Cause::ConnectionManager => "由连接管理器（CM）改变",
        Cause::DeviceFatal => "设备已停止",
        Cause::Provoked => "由 glassnic event 引起",
        Cause::OwnerDied => "它的进程已退出",
    }
}

pub(crate) const fn nak(code: NakCode) -> &'static str {
    match code {
        NakCode::PsnSequence => "PSN 顺序错误",
        NakCode::InvalidRequest => "无效请求",
        NakCode::RemoteAccess => "远程访问错误",
        NakCode::RemoteOperational => "远程操作错误",
        NakCode::InvalidRdRequest => "无效的 RD 请求",
    }
}

pub(crate) const fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Malformed => "报文格式错误",
        DropReason::BadIcrc => "ICRC 不符",
        DropReason::UnknownQp => "没有这个号的 QP",
        DropReason::WrongState => "QP 在当前状态下不接收报文",
        DropReason::PkeyMismatch => "P_Key 不符",
        DropReason::QkeyMismatch => "Q_Key 不符",
        DropReason::WrongSource => "不是来自所连接的对端",
        DropReason::WrongDestination => "目的地址不是该 QP 的 GID",
        DropReason::WrongService => "操作码属于另一种传输服务",
        DropReason::UnknownOpcode => "未知的操作码",
        DropReason::NoReceive => "没有已提交的接收请求",
        DropReason::ReceiveError => "接收请求容不下该消息",
        DropReason::OutOfSequence => "顺序错误",
        DropReason::Duplicate => "重复的报文",
        DropReason::StaleResponse => "响应不对应任何未完成的请求",
        DropReason::NoMulticastMember => "组播组中没有成员",
        DropReason::QueueFull => "设备的队列已满",
        DropReason::Injected => "由故障注入丢弃",
        DropReason::LinkError => "链路无法传送",
        DropReason::WaitingForResend => "在已报告的缺口之后，等待重传",
    }
}
