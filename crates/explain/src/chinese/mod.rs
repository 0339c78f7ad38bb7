//! The sentences in Chinese. Names of verbs, fields, states and objects stay as the man pages spell them; the rest is
//! how RDMA engineers write. No full stop: the parts are joined into one line.

use std::fmt::Display;

use glassnic_events::Queue;

pub(crate) mod around;
pub(crate) mod check;
pub(crate) mod name;
pub(crate) mod rule;

/// `a、b 或 c`; `无` for an empty list.
fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    match names.as_slice() {
        [] => "无".to_string(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} 或 {last}", head.join("、")),
    }
}

const fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Send => "发送队列",
        Queue::Recv => "接收队列",
        Queue::Srq => "共享接收队列（SRQ）",
        Queue::Cq => "完成队列（CQ）",
    }
}
