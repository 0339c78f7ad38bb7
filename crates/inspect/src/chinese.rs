//! What the fields of contexts and drivers' blocks say, in Chinese, by what their tables say in English.

use glassnic_explain::Lang;

/// What a field says. What has no Chinese is a name of C.
pub(crate) fn doc(lang: Lang, english: &'static str) -> &'static str {
    let chinese = DOCS.iter().find(|(known, _)| *known == english).map_or(english, |(_, chinese)| *chinese);
    lang.pick(english, chinese)
}

const DOCS: &[(&str, &str)] = &[
    ("QP number; 0 in a free context", "QP 号；空闲的上下文为 0"),
    ("1 if every send is signalled", "每个发送都产生完成时为 1"),
    ("1 while SQD waits for work in flight", "SQD 等待在途请求时为 1"),
    ("handle of the protection domain", "PD 的句柄"),
    ("handle of the send CQ", "发送 CQ 的句柄"),
    ("handle of the receive CQ", "接收 CQ 的句柄"),
    ("handle of the SRQ, 0 for none", "SRQ 的句柄，0 为无"),
    ("time of creation, monotonic ns", "创建时间，单调时钟，ns"),
    ("enum ibv_wc_status of the first error", "首个错误的 enum ibv_wc_status"),
    ("the check that failed first; 0 for none", "首个失败的检查；0 为无"),
    ("PSN of the first error", "首个错误的 PSN"),
    ("wr_id of the first error", "首个错误的 wr_id"),
    ("odd while the context is being written", "正在写上下文时为奇数"),
    ("destination GID", "目的 GID"),
    ("destination QP number", "目的 QP 号"),
    ("index of the source GID", "源 GID 的下标"),
    ("index of the source GID of the alternate path", "备用路径的源 GID 下标"),
    ("destination GID of the alternate path, zeros for none", "备用路径的目的 GID，全零表示没有"),
    ("hop limit", "跳数上限"),
    ("traffic class", "流量类别"),
    ("service level", "服务级别"),
    ("flow label", "流标签"),
    ("port", "端口"),
    ("index of the P_Key", "P_Key 的下标"),
    ("local ACK timeout, 4.096 us * 2^n", "本端 ACK 超时，4.096 us × 2^n"),
    ("transport retries", "传输重试次数"),
    ("RNR retries, 7 without end", "RNR 重试次数，7 为不限"),
    ("RNR timer code asked of the peer", "要求对端等待的 RNR 定时器编码"),
    ("reads and atomics outstanding as requester", "作为请求方未完成的读和原子操作"),
    ("reads and atomics outstanding as responder", "作为响应方未完成的读和原子操作"),
    ("elements of a send", "一个发送的 SGE 数"),
    ("elements of a receive", "一个接收的 SGE 数"),
    ("bytes that can be posted inline", "可以内联提交的字节数"),
    ("PSN of the next new request", "下一个新请求的 PSN"),
    ("oldest PSN not acknowledged", "尚未确认的最早 PSN"),
    ("index of the oldest request not finished", "尚未完成的最早请求的序号"),
    ("index of the next request to be posted", "下一个要提交的请求的序号"),
    ("send queue slots in use", "发送队列已用的槽位"),
    ("send queue slots", "发送队列的槽位"),
    ("transport retries left", "剩余的传输重试次数"),
    ("RNR retries left", "剩余的 RNR 重试次数"),
    ("RNR NAKs that came in", "收到的 RNR NAK 数"),
    ("times that no acknowledgement came in time", "确认未按时到达的次数"),
    ("times that requests were sent again", "请求重传的次数"),
    ("NAKs that came in, without RNR", "收到的 NAK 数，不含 RNR"),
    (
        "finished requests whose slots wait for a later, signalled one",
        "已完成的请求，其槽位等待之后产生完成的请求来归还",
    ),
    (
        "since when the peer has not been ready, monotonic ns; 0 while it is",
        "对端从何时起未就绪，单调时钟，ns；就绪时为 0",
    ),
    ("PSN expected next", "下一个期望的 PSN"),
    ("messages completed, 24 bits", "已完成的消息数，24 位"),
    ("receives posted and not taken", "已提交而未被取用的接收"),
    ("receive queue slots in use", "接收队列已用的槽位"),
    ("receive queue slots", "接收队列的槽位"),
    ("receives ever posted", "提交过的接收总数"),
    ("RNR NAKs sent: no receive was posted", "发出的 RNR NAK 数：没有已提交的接收"),
    ("NAKs sent, without RNR", "发出的 NAK 数，不含 RNR"),
    ("packets thrown away", "丢弃的报文数"),
    ("why, the last one", "最近一次丢弃的原因"),
    (
        "since when messages find no receive, monotonic ns; 0 while they do",
        "从何时起消息找不到接收，单调时钟，ns；找得到时为 0",
    ),
    ("QP number; 0 in a free block", "QP 号；空闲的数据块为 0"),
    ("enum ibv_qp_state, as the last call left it", "enum ibv_qp_state，最近一次调用之后的状态"),
    ("thread that created it", "创建它的线程"),
    ("number of the place in the program that created it; 0 unknown", "创建它的程序位置的编号；0 为未知"),
    ("when it was last modified, monotonic ns; 0 never", "最近一次修改的时间，单调时钟，ns；0 为从未"),
    ("thread that last modified it", "最近一次修改它的线程"),
    ("times it was modified", "修改的次数"),
    ("send requests ever posted (32 bits, wraps)", "提交过的发送请求总数（32 位，会回绕）"),
    (
        "send queue slots that polled completions gave back (32 bits, wraps)",
        "轮询到的完成所归还的发送队列槽位（32 位，会回绕）",
    ),
    ("receives ever posted (32 bits, wraps)", "提交过的接收总数（32 位，会回绕）"),
    (
        "receive queue slots that polled completions gave back (32 bits, wraps)",
        "轮询到的完成所归还的接收队列槽位（32 位，会回绕）",
    ),
    ("calls on it that were refused", "对它的调用被拒绝的次数"),
    ("the last of them", "其中最近一次的调用"),
    ("and its errno", "及其 errno"),
    ("and when, monotonic ns", "及其时间，单调时钟，ns"),
    ("modifies that found another thread's on its way", "与另一线程的修改相遇的修改次数"),
    ("the other thread, the last time", "最近一次相遇的另一线程"),
    (
        "the thread that came while the other's was on its way, the last time",
        "最近一次相遇时，在另一线程修改途中到来的线程",
    ),
    ("when it was last queried, monotonic ns; 0 never", "最近一次查询的时间，单调时钟，ns；0 为从未"),
    ("first PSN to send, as the last modify to RTS gave it", "起始发送 PSN，由最近一次转到 RTS 的修改给出"),
    ("first PSN to expect, as the last modify to RTR gave it", "起始期望 PSN，由最近一次转到 RTR 的修改给出"),
    ("queries that came before the device had written its context back", "设备写回上下文之前到来的查询次数"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use glassnic_verbs::fields::Fields;
    use glassnic_verbs::{driver, qpc};

    #[test]
    fn every_field_has_its_words() {
        for field in qpc::Field::ALL.iter().chain(driver::Field::ALL) {
            let name_of_c =
                ["enum ", "qp_access_flags", "Q_Key"].iter().any(|name| field.doc.starts_with(name));
            let said = doc(Lang::Zh, field.doc);
            assert!(!said.is_ascii() || name_of_c, "{}: {}", field.name, field.doc);
        }
        // None is left over from a field that has gone or says something else now.
        for (english, _) in DOCS {
            let used = qpc::Field::ALL.iter().chain(driver::Field::ALL).any(|field| field.doc == *english);
            assert!(used, "{english}");
        }
    }
}
