//! Findings in Chinese. Names of verbs, fields, states and objects stay as the man pages spell them.

use glassnic_events::QpState;
use glassnic_explain::{Lang, check_in, explain_in};

use super::finding::{Fault, Finding, Group, Pile, Severity, Who};
use super::report::{Said, Words, failure, needs};
use crate::decode::span;
use crate::model::NicState;

/// All of them.
pub(super) const WORDS: Words = Words {
    nothing: "没有发现问题",
    head,
    handshake,
    wrong_peer,
    mismatch,
    failed,
    queue,
    completion,
    call,
    objects,
};

fn head(finding: &Finding, what: &str) -> String {
    let severity = match finding.severity {
        Severity::Error => "错误",
        Severity::Warning => "警告",
        Severity::Hint => "提示",
    };
    format!("{severity}：{}：{what}", subject(finding))
}

/// `进程 4711（server，已崩溃）的 QP 0x12`.
fn subject(finding: &Finding) -> String {
    let process = &finding.process;
    let state = match process.state {
        NicState::Open => String::new(),
        gone => format!("，{}", gone.in_words(Lang::Zh)),
    };
    let qp = finding.qpn.map_or_else(String::new, |qpn| format!("的 QP {qpn:#x}"));
    format!("进程 {}（{}{state}）{qp}", process.pid, process.command)
}

fn who(who: &Who) -> String {
    format!("进程 {}（{}）的 QP {:#x}", who.process.pid, who.process.command, who.qpn)
}

fn site(frames: &[String]) -> Option<String> {
    frames.first().map(|frame| format!("创建于 {frame}"))
}

fn group(group: &Group) -> String {
    let at = site(&group.site).map_or_else(String::new, |site| format!("，{site}"));
    format!("{} 个 {}{at}", group.count, group.kind)
}

fn handshake(finding: &Finding) -> Said {
    match &finding.fault {
        Fault::NotReady { state, age_ns, peer, unanswered, timeouts, refused, .. } => {
            let mut evidence = vec![format!("{} 处于 {}，并且连接到它", who(peer), peer.state)];
            if *unanswered > 0 || *timeouts > 0 {
                evidence.push(format!(
                    "{}有 {unanswered} 个报文没有得到应答，ACK 定时器超时 {timeouts} 次",
                    who(peer)
                ));
            }
            evidence.push(format!("它停留在 {state} 已有 {}", span(*age_ns)));
            if let Some(refusal) = refused {
                evidence.push(format!("它最近一次 modify 被拒绝：{}", explain_in(Lang::Zh, refusal)));
            }
            let does =
                if *unanswered > 0 || *timeouts > 0 { "正在向它发送" } else { "已准备好发送" };
            let first =
                if *state == QpState::Reset { "先调用 ibv_modify_qp 转到 INIT，再" } else { "" };
            Said {
                what: format!("一直没有离开 {state}，而对端（{}）{does}", who(peer)),
                evidence,
                remedy: format!(
                    "进程 {} 必须{first}调用 ibv_modify_qp 转到 RTR，参数为 {}；若要发送，再转到 RTS",
                    finding.process.pid,
                    needs(&finding.fault)
                ),
            }
        }
        Fault::BothInInit { age_ns, other, other_age_ns } => Said::new(
            format!("停在 INIT，{}也是如此：两端可能都在等对方的 QP 号", who(other)),
            [format!("分别已停留 {} 和 {}，两个进程都没有更靠后的 QP", span(*age_ns), span(*other_age_ns))],
            "让其中一端先发送自己的 QP 号、PSN 和 GID，再等待对方的；然后两端都调用 ibv_modify_qp 转到 RTR",
        ),
        _ => Said::default(),
    }
}

fn wrong_peer(finding: &Finding) -> Said {
    match &finding.fault {
        Fault::PeerMissing { dest_qpn, dgid, destroyed, unanswered } => {
            let mut evidence = vec![format!("本用户没有进程拥有 QP {dest_qpn:#x}，而 dgid={dgid} 就是本机")];
            if let Some((process, ago_ns)) = destroyed {
                let (pid, command, ago) = (process.pid, &process.command, span(*ago_ns));
                evidence.push(format!("进程 {pid}（{command}）在 {ago} 之前销毁了它"));
            }
            if *unanswered > 0 {
                evidence.push(format!("有 {unanswered} 个报文没有得到应答"));
            }
            let remedy = match destroyed {
                Some(_) => "等对端收到它所等待的全部内容之后再销毁 QP",
                None => "dest_qp_num 应填对端发来的 qp_num",
            };
            Said { what: format!("向不存在的 QP {dest_qpn:#x} 发送"), evidence, remedy: remedy.into() }
        }
        Fault::PeerGone { peer } => Said::new(
            format!("向{}发送，而该进程已不在（{}）", who(peer), peer.process.state.in_words(Lang::Zh)),
            [format!("对端最后处于 {}", peer.state)],
            format!("检查进程 {} 为何结束，然后重新建立连接", peer.process.pid),
        ),
        Fault::PeerElsewhere { peer, its_dest } => Said::new(
            format!("连接到{}，而后者连接到另一个 QP", who(peer)),
            [format!("对端的 dest_qp_num 是 {its_dest:#x}，来自其他 QP 的报文会被丢弃")],
            format!(
                "把对端的 dest_qp_num 设为 {:#x}，或者让这个 QP 使用真正要连接的 QP 号",
                finding.qpn.unwrap_or(0)
            ),
        ),
        _ => Said::default(),
    }
}

fn mismatch(fault: &Fault) -> Said {
    match fault {
        Fault::TypeMismatch { qp_type, peer, peer_type } => Said::new(
            format!("类型是 {qp_type}，而对端（{}）是 {peer_type}", who(peer)),
            [],
            "两端应使用同一种 qp_type",
        ),
        Fault::PsnMismatch { peer, sq_psn, peer_rq_psn } => Said::new(
            format!("从 PSN {sq_psn:#x} 开始发送，而对端（{}）期待 {peer_rq_psn:#x}", who(peer)),
            [format!("本端 sq_psn={sq_psn:#x}，对端 rq_psn={peer_rq_psn:#x}：到达的报文会被当作重复或缺口")],
            format!(
                "对端调用 ibv_modify_qp 转到 RTR 时应设 rq_psn={sq_psn:#x}：一端的 rq_psn 就是另一端的 sq_psn"
            ),
        ),
        Fault::MtuMismatch { peer, path_mtu, peer_path_mtu } => Said::new(
            format!("path_mtu 是 {path_mtu}，而对端（{}）是 {peer_path_mtu}", who(peer)),
            ["长于较小值的消息，其分段与对端所期待的不一致".to_owned()],
            format!("两端的 path_mtu 都设为 {}", path_mtu.min(peer_path_mtu)),
        ),
        Fault::RdAtomicMismatch { peer, max_rd_atomic, max_dest_rd_atomic } => Said::new(
            format!(
                "最多可有 {max_rd_atomic} 个未完成的 RDMA READ 或原子操作，而对端（{}）只处理 {max_dest_rd_atomic} 个",
                who(peer)
            ),
            [format!("本端 max_rd_atomic={max_rd_atomic}，对端 max_dest_rd_atomic={max_dest_rd_atomic}")],
            format!("本端 max_rd_atomic 不要超过 {max_dest_rd_atomic}，或者提高对端的 max_dest_rd_atomic"),
        ),
        Fault::GidMismatch { peer, dgid, peer_gid } => Said::new(
            format!("发往 {dgid}，而对端（{}）在 {peer_gid}", who(peer)),
            ["对端只接收发往其 sgid_index 所指 GID 的报文".to_owned()],
            format!("设 ah_attr.grh.dgid={peer_gid}，或者让对端的 sgid_index 指向 {dgid}"),
        ),
        Fault::QkeyMismatch { qkey, dropped } => Said::new(
            "因 Q_Key 不符而丢弃数据报",
            [format!("它的 Q_Key 是 {qkey:#x}；已丢弃 {dropped} 个报文，最近一次就是这个原因")],
            format!("发送方应设 wr.ud.remote_qkey={qkey:#x}"),
        ),
        _ => Said::default(),
    }
}

fn failed(finding: &Finding) -> Said {
    let Fault::Failed { state, peer, peer_check, deregistered_ns, access, .. } = &finding.fault else {
        return Said::default();
    };
    let Some(explained) = failure(Lang::Zh, finding) else { return Said::default() };
    let mut evidence = Vec::new();
    match state {
        Some(state) => evidence.push(format!("它处于 {state}；之后被刷新（flush）的请求都由此而来")),
        None => evidence.push("它此后已被销毁".into()),
    }
    if let Some(peer) = peer {
        evidence.push(format!("对端（{}）处于 {}", who(peer), peer.state));
    }
    if let Some(check) = peer_check {
        evidence.push(format!("对端：{}", check_in(Lang::Zh, *check)));
    }
    let mut remedy = explained.remedy;
    if access.is_some_and(|access| access.region.is_some_and(|region| region.other_key)) {
        remedy = "发给对端的应是 mr->rkey，sge.lkey 应使用 mr->lkey：两者不是同一个数".into();
    }
    if let Some(ago_ns) = deregistered_ns {
        evidence.push(format!("该 key 的 MR 在此前 {} 已注销", span(*ago_ns)));
        remedy = "等使用这块内存的最后一个请求完成之后再调用 ibv_dereg_mr".into();
    }
    Said { what: explained.what, evidence, remedy }
}

fn queue(fault: &Fault) -> Said {
    match fault {
        Fault::NoReceive { peer, since_ns, posted, srq, rnr_sent, reliable } => {
            let what = match (reliable, peer) {
                (true, Some(peer)) => format!("没有已提交的接收请求，而{} 正在等待", who(peer)),
                (true, None) => "没有已提交的接收请求，而对端正在等待".into(),
                (false, _) => "没有已提交的接收请求，发给它的消息都丢失了".into(),
            };
            let ever = match posted {
                0 => "从未提交过接收请求".to_owned(),
                n => format!("共提交过 {n} 个接收请求，已全部用完"),
            };
            let mut evidence = vec![format!("消息找不到接收请求已有 {}", span(*since_ns)), ever];
            if *reliable {
                evidence.push(format!("已发送 {rnr_sent} 个 RNR NAK"));
            }
            let call = match srq {
                Some(srq) => {
                    evidence.push(format!("它的接收请求来自 SRQ {srq:#x}，而该 SRQ 是空的"));
                    "ibv_post_srq_recv"
                }
                None => "ibv_post_recv",
            };
            let remedy = format!("在对端发送之前调用 {call}，每完成一个再补一个");
            Said { what, evidence, remedy }
        }
        Fault::RnrLoop { dgid, dest_qpn, since_ns, received, rnr_retry } => Said::new(
            "反复发送同一条消息：对端没有已提交的接收请求",
            [
                format!("已收到 {received} 个 RNR NAK，持续 {}；rnr_retry={rnr_retry}", span(*since_ns)),
                format!("对端是 {dgid} 上的 QP {dest_qpn:#x}"),
            ],
            "在对端提交接收请求；rnr_retry=7 表示永不放弃，更小的值会以 IBV_WC_RNR_RETRY_EXC_ERR 结束",
        ),
        Fault::QueueFull { depth, unsignalled } => Said::new(
            "发送队列已被不产生完成的请求占满，再也无法提交能释放它们的请求",
            [format!(
                "{depth} 个槽位中有 {unsignalled} 个是已执行完的请求，在等后面一个带 IBV_SEND_SIGNALED 的请求"
            )],
            format!("至少每 {} 个请求设一次 IBV_SEND_SIGNALED，并轮询其完成", (depth / 2).max(1)),
        ),
        _ => Said::default(),
    }
}

fn completion(fault: &Fault) -> Said {
    match fault {
        Fault::CqTooSmall { cq, alike, depth, worst, qps, overrun, site: frames } => {
            let what = match overrun {
                true => format!("CQ {cq:#x} 溢出：有完成放不下，相关 QP 已进入 ERR"),
                false if *alike > 0 => {
                    format!(
                        "CQ {cq:#x} 及另外 {alike} 个同样的 CQ 可能溢出：可能同时完成的请求多于它们的容量"
                    )
                }
                false => format!("CQ {cq:#x} 可能溢出：可能同时完成的请求多于它的容量"),
            };
            let qps: Vec<_> = qps.iter().take(4).map(|qpn| format!("{qpn:#x}")).collect();
            let mut evidence =
                vec![format!("容量为 {depth}；其 QP（{}）的队列共可容纳 {worst} 个请求", qps.join("、"))];
            evidence.extend(site(frames));
            let remedy =
                format!("创建时设 cqe={}，或者在提交更多请求之前先轮询", worst.max(&depth.saturating_add(1)));
            Said { what, evidence, remedy }
        }
        Fault::AsleepOverCompletions { cq, waiting, armed_with, armed, thread, asleep_ns } => {
            let how = match *armed {
                "none" => "它没有请求通知，因此不会有事件".to_owned(),
                armed => {
                    format!("它已请求通知（{armed}），但请求时已有 {armed_with} 个完成：这些不会再产生事件")
                }
            };
            let remedy = match *armed {
                "none" => "先调用 ibv_req_notify_cq，再把 CQ 轮询到空，然后才调用 ibv_get_cq_event",
                _ => "调用 ibv_req_notify_cq 之后先把 CQ 轮询到空，然后才调用 ibv_get_cq_event",
            };
            Said::new(
                format!("线程 {thread} 在等待 CQ {cq:#x} 的事件，而其中已有 {waiting} 个完成"),
                [format!("已睡眠 {}", span(*asleep_ns)), how],
                remedy,
            )
        }
        Fault::DestroyWaits { kind, handle, events, thread, since_ns } => Said::new(
            format!("销毁 {kind} {handle:#x} 时在等 {events} 个事件得到确认"),
            [format!("线程 {thread} 已等待 {}", span(*since_ns))],
            match kind.as_str() {
                "CQ" => {
                    "对 ibv_get_cq_event 给出的每个事件都调用 ibv_ack_cq_events，然后再调用 ibv_destroy_cq"
                }
                _ => "对 ibv_get_async_event 给出的每个事件都调用 ibv_ack_async_event，然后再销毁",
            },
        ),
        Fault::AsyncUnread { waiting, since_ns, events } => {
            let names: Vec<_> = events.iter().map(|event| event.name()).collect();
            Said::new(
                "异步事件报告了错误，却没有人读取",
                [format!("有 {waiting} 个在等待，最早的已等 {}：{}", span(*since_ns), names.join("、"))],
                "在一个线程中，或在 async_fd 可读时，调用 ibv_get_async_event 和 ibv_ack_async_event",
            )
        }
        _ => Said::default(),
    }
}

fn call(fault: &Fault) -> Said {
    match fault {
        Fault::ForkedUse { child, times } => Said::new(
            format!("fork 出的子进程 {child} 使用了父进程打开的设备"),
            [format!("被拒绝 {times} 次")],
            "在 fork(2) 之后由子进程自己打开设备；父进程打开的只属于父进程",
        ),
        Fault::Overlaps { times, threads: [one, other] } => Said::new(
            "被多个线程同时修改，先后顺序不由程序决定",
            [format!("发生 {times} 次，线程 {one} 和 {other}")],
            "用锁保护查询、检查和 ibv_modify_qp，或者让一个 QP 只归一个线程",
        ),
        Fault::EarlyQueries { times, write_back_ns } => Said::new(
            "在 modify 之后过早查询，得到的是旧状态",
            [format!("发生 {times} 次；本设备在 {} 之后才写回 QPC", span(*write_back_ns))],
            "由程序自己记住所设的状态，或者稍后再查询",
        ),
        Fault::Refused { refusal, times, ago_ns, stayed } => {
            let explained = explain_in(Lang::Zh, refusal);
            let mut evidence = vec![format!("共 {times} 次，最近一次在 {} 之前", span(*ago_ns))];
            if *stayed {
                evidence.push("此后 QP 的状态没有变化".into());
            }
            Said {
                what: format!("{} 被拒绝：{}", explained.subject, explained.what),
                evidence,
                remedy: explained.remedy,
            }
        }
        _ => Said::default(),
    }
}

fn objects(fault: &Fault) -> Said {
    match fault {
        Fault::NearLimit { kind, held, limit, sites } => Said::new(
            format!("已有 {held} 个 {kind}，上限为 {limit}"),
            sites.iter().map(group),
            format!("销毁不再使用的 {kind}，或者共用"),
        ),
        Fault::LeftBehind { groups } => Said::new(
            "结束时留下了未销毁的对象",
            groups.iter().map(group),
            "结束之前销毁所创建的对象，先 QP，最后 PD：继续运行的程序会因此泄漏",
        ),
        Fault::Piled { group: of, pile, age_ns } => {
            let (kind, count) = (of.kind, of.count);
            let (what, remedy) = match pile {
                Pile::NeverModified => (
                    format!("泄漏 QP：同一处创建的 {count} 个 QP 从未离开 RESET"),
                    "放弃建立连接时应调用 ibv_destroy_qp".to_owned(),
                ),
                Pile::SameMemory { addr, length } => (
                    format!("泄漏 MR：同一处注册的 {count} 个 MR 都是 {addr:#x} 开始的同样 {length} 字节"),
                    "这块内存只注册一次，或者每次用完都调用 ibv_dereg_mr".to_owned(),
                ),
                Pile::Unused => (
                    format!("泄漏 {kind}：同一处创建的 {count} 个 {kind} 没有任何对象在用"),
                    format!("最后一个使用者销毁之后就销毁 {kind}"),
                ),
                Pile::SameDestination { dgid } => (
                    format!("泄漏 AH：同一处创建的 {count} 个 AH 都通往 {dgid}"),
                    "每个目的地只保留一个 AH，或者发送完成之后调用 ibv_destroy_ah".to_owned(),
                ),
            };
            Said::new(what, [group(of), format!("最早的已存在 {}", span(*age_ns))], remedy)
        }
        Fault::Growing { group: of, before, span_ns } => {
            let (kind, count) = (of.kind, of.count);
            Said::new(
                format!("同一处不断创建 {kind}，却没有销毁过一个"),
                [format!("{} 内从 {before} 个增加到 {count} 个", span(*span_ns)), group(of)],
                format!("每个 {kind} 用完后就销毁，或者重复使用"),
            )
        }
        Fault::Idle { qpns, state, age_ns, site: frames } => Said::new(
            format!("有 {} 个 QP 处于 {state}，从未有过流量", qpns.len()),
            [format!("最早的已存在 {}", span(*age_ns))].into_iter().chain(site(frames)),
            "如果对端不会来，就销毁它们",
        ),
        _ => Said::default(),
    }
}
