//! `glassnic event`: lets an asynchronous event happen on the NICs of programs that run.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use glassnic_explain::both;
use glassnic_verbs::Words;
use glassnic_verbs::events::AsyncEventType;
use glassnic_verbs::inspect::{Asked, Folder, NicView};

use crate::{fault, lang, out};

/// How long a process may take to notice: its thread looks at least once a second.
const PATIENCE: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(5);

#[derive(Args)]
pub(crate) struct Options {
    /// The event, as in port-err, port-active, gid-change, device-fatal, qp-fatal, cq-err
    ///
    /// port-err takes the port down until port-active: nothing leaves and nothing comes in. device-fatal stops the device,
    /// qp-fatal moves a QP to ERR, cq-err makes a CQ overrun. The others are told to the program, and nothing else happens:
    /// gid-change, lid-change, pkey-change, sm-change, client-reregister; qp-req-err, qp-access-err, comm-est, sq-drained,
    /// path-mig, path-mig-err.
    #[arg(value_name = "EVENT", value_parser = kind)]
    event: AsyncEventType,
    /// The QP's number or the CQ's handle, where the event is about one; decimal or 0x…
    #[arg(value_name = "OBJECT", value_parser = number)]
    object: Option<u32>,
    /// Only the NICs of this process; otherwise of all processes of this user
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Only NICs of this device, as in glass0
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// `port-err` is `IBV_EVENT_PORT_ERR`.
fn kind(text: &str) -> Result<AsyncEventType, String> {
    let words = |event: &AsyncEventType| {
        event.to_string().trim_start_matches("IBV_EVENT_").to_lowercase().replace('_', "-")
    };
    let wanted = text.to_lowercase().replace('_', "-");
    let wanted = wanted.trim_start_matches("ibv-event-");
    AsyncEventType::ALL.iter().find(|event| words(event) == wanted).copied().ok_or_else(|| {
        let all: Vec<_> = AsyncEventType::ALL.iter().map(words).collect();
        both!(lang(), "no such event; there are {}", "没有这个事件；可用的有 {}", all.join(", "))
    })
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

/// Is the event about a QP or a CQ?
fn is_of_an_object(event: AsyncEventType) -> bool {
    use AsyncEventType as E;
    matches!(
        event,
        E::CqErr
            | E::QpFatal
            | E::QpReqErr
            | E::QpAccessErr
            | E::CommEst
            | E::SqDrained
            | E::PathMig
            | E::PathMigErr
            | E::SrqErr
            | E::SrqLimitReached
            | E::QpLastWqeReached
            | E::WqFatal
    )
}

/// Asks, waits until it has happened, and says where it did.
///
/// # Errors
/// One line.
pub(crate) fn event(options: &Options) -> Result<u8, String> {
    let Options { event, object, .. } = *options;
    if is_of_an_object(event) != object.is_some() {
        return Err(match object {
            None => both!(
                lang(),
                "{event} is about a queue: name it by its number or handle, as glassnic qp ls and cq ls show it",
                "{event} 针对一个队列：请给出 glassnic qp ls 或 cq ls 显示的编号或句柄"
            ),
            Some(_) => both!(lang(), "{event} is about no object", "{event} 不针对任何对象"),
        });
    }
    let folder = Folder::open().map_err(|error| error.in_words(lang()))?;
    let mut found = 0;
    let mut happened = 0;
    for name in folder.segments().map_err(|error| error.in_words(lang()))? {
        let Ok(Some(nic)) = folder.nic(&name) else { continue };
        let meant = options.pid.is_none_or(|pid| pid == nic.pid())
            && options.device.as_ref().is_none_or(|device| *device == nic.device())
            && nic.is_open();
        if !meant {
            continue;
        }
        found += 1;
        folder.ask_event(&name, event, object.unwrap_or(0)).map_err(|error| fault(&name, &error))?;
        if wait(&folder, &name, &nic)? {
            happened += 1;
            out::print(&both!(
                lang(),
                "{event}: {} of process {}\n",
                "{event}：{}，进程 {}\n",
                nic.device(),
                nic.pid()
            ))?;
        }
    }
    match (found, happened, object) {
        (0, ..) => Err(lang()
            .pick(
                "no running program has such a NIC open; see glassnic ps",
                "没有正在运行的程序打开这样的 NIC；见 glassnic ps",
            )
            .to_owned()),
        (_, 0, Some(object)) => Err(both!(
            lang(),
            "no NIC has object {object:#x} for {event}; see glassnic qp ls and glassnic cq ls",
            "没有 NIC 拥有 {event} 所针对的对象 {object:#x}；见 glassnic qp ls 和 glassnic cq ls"
        )),
        (_, 0, None) => Err(both!(lang(), "{event} cannot happen here", "此处不会发生 {event}")),
        _ => Ok(0),
    }
}

/// Waits until a process has noticed; whether the event happened there.
fn wait(folder: &Folder, name: &str, nic: &NicView) -> Result<bool, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match nic.event_asked() {
            Asked::Nothing => return Ok(true),
            Asked::Refused => {
                let _ = folder.forget_event(name);
                return Ok(false);
            }
            Asked::Waits if Instant::now() < deadline => thread::sleep(TICK),
            Asked::Waits => {
                let _ = folder.forget_event(name);
                let pid = nic.pid();
                return Err(both!(
                    lang(),
                    "process {pid} does not answer: it is stopped, or has ended",
                    "进程 {pid} 没有响应：它已停止或已结束"
                ));
            }
        }
    }
}
