//! `glassnic demo`: two stock programs talk, and one watches.

mod summary;
mod watch;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use glassnic_verbs::Words;
use glassnic_verbs::inspect::monotonic_ns as now_ns;

use crate::out::{self, Reader};
use crate::program::Interrupts;
use crate::{lang, libdir, run};
use glassnic_explain::both;
use glassnic_inspect::Told;
use glassnic_inspect::text::pad;
use summary::side_name;
use watch::{Seen, Watcher};

/// The stock program, from rdma-core's examples: a server and a client that send messages to and fro.
const PROGRAM: &str = "ibv_rc_pingpong";

/// How long the server may take to listen, and the two to talk.
const LIMIT: Duration = Duration::from_secs(20);

/// How often the two are looked at.
const TICK: Duration = Duration::from_millis(2);

const NEXT: &str = "\
Try next:
  glassnic devices                               the device, its GIDs, and the reason for each
  glassnic run -- ibv_devinfo -v                 the device as a verbs program sees it
  glassnic run -- ib_write_bw                    perftest's server; the client takes its host name
  glassnic run -- ibv_rc_pingpong                without -g: refused, and why (client: … localhost)
  glassnic run -- YOUR_PROGRAM                   any verbs program, as it is";

const NEXT_IN_CHINESE: &str = "\
接下来可以试试：
  glassnic devices                               设备、它的 GID，以及各自的原因
  glassnic run -- ibv_devinfo -v                 verbs 程序所见的设备
  glassnic run -- ib_write_bw                    perftest 的服务端；客户端给出它的主机名
  glassnic run -- ibv_rc_pingpong                不带 -g：被拒绝，并说明原因（客户端：… localhost）
  glassnic run -- YOUR_PROGRAM                   任何 verbs 程序，原样运行";

/// How long an event is held back, that one of the other side with an earlier time can be told before it.
const HOLD_NS: u64 = 20_000_000;

/// Runs the demonstration, as long as somebody watches. Gives the exit status.
///
/// # Errors
/// One line when the programs are missing, or did not succeed.
pub(crate) fn demo() -> Result<u8, String> {
    let libraries = libdir::find()?;
    let port = free_port()?;
    let opening = both!(
        lang(),
        "A server and a client, both {PROGRAM} as your distribution built it, each on a NIC of its own.\n\
         What their NICs record is read from outside, and told in the order in which it happened:\n",
        "一个服务端和一个客户端，都是发行版自带的 {PROGRAM}，各有自己的 NIC。\n\
         它们的 NIC 所记录的内容从外部读取，并按发生的顺序讲述：\n"
    );
    let (lines, told) = channel();
    let mut stage = Stage {
        interrupts: Interrupts::watch()?,
        watcher: Watcher::default(),
        told,
        waiting: Vec::new(),
        began_ns: None,
        reader: Reader::Reads,
    };
    stage.print(&format!("{opening}\n"))?;
    let mut server = stage.start("server", &libraries, port, &[], &lines)?;
    if let Err(why) = wait_listening(&mut server, port, &mut stage) {
        drop(lines);
        // What the server said before it ended is the best explanation.
        stage.finish()?;
        return Err(why);
    }
    let mut client = stage.start("client", &libraries, port, &["127.0.0.1"], &lines)?;
    drop(lines);
    let started = Instant::now();
    // Ends when both have closed their output, or the time is up.
    while started.elapsed() < LIMIT && stage.goes_on() && stage.tick()? {
        thread::sleep(TICK);
    }
    if !stage.goes_on() {
        return Ok(stage.interrupts.status(0));
    }
    let succeeded = [client.finish()?, server.finish()?];
    stage.finish()?;
    if succeeded != [true, true] && !stage.interrupts.came() {
        return Err(both!(
            lang(),
            "{PROGRAM} failed; its own words stand above",
            "{PROGRAM} 失败；它自己的输出见上"
        ));
    }
    stage.print(&format!("\n{}\n", lang().pick(NEXT, NEXT_IN_CHINESE)))?;
    Ok(stage.interrupts.status(0))
}

/// Where the two are watched, and the words put in order.
struct Stage {
    watcher: Watcher,
    /// What the programs print, with the time when it came.
    told: Receiver<(u64, String)>,
    /// Told to us, and not yet told on.
    waiting: Vec<(u64, Word)>,
    /// When the first event happened.
    began_ns: Option<u64>,
    interrupts: Interrupts,
    reader: Reader,
}

/// One of the two; it does not outlive the demonstration.
struct Side(Child);

enum Word {
    Event(Seen),
    Output(String),
}

impl Stage {
    /// Starts one side; what it prints comes line by line through `lines`.
    fn start(
        &mut self,
        role: &'static str,
        libraries: &Path,
        port: u16,
        words: &[&str],
        lines: &Sender<(u64, String)>,
    ) -> Result<Side, String> {
        let (child, run) = start(role, libraries, port, words, lines)?;
        let child = Side(child);
        self.watcher.add(run, role)?;
        Ok(child)
    }

    /// Whether somebody watches, and nobody asks us to end.
    fn goes_on(&mut self) -> bool {
        self.reader == Reader::Reads && !self.interrupts.came()
    }

    fn print(&mut self, text: &str) -> Result<(), String> {
        if self.reader == Reader::Reads {
            self.reader = out::print(text)?;
        }
        Ok(())
    }

    /// Tells what happened a while ago. False when no more output will come.
    fn tick(&mut self) -> Result<bool, String> {
        let open = self.gather();
        self.tell_until(now_ns().saturating_sub(HOLD_NS))?;
        Ok(open)
    }

    fn gather(&mut self) -> bool {
        let seen = self.watcher.look();
        self.waiting.extend(seen.into_iter().map(|seen| (seen.at_ns, Word::Event(seen))));
        loop {
            match self.told.try_recv() {
                Ok((at_ns, line)) => self.waiting.push((at_ns, Word::Output(line))),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Tells what happened up to a time. What is of one time stays in the order in which it was read.
    fn tell_until(&mut self, end_ns: u64) -> Result<(), String> {
        self.waiting.sort_by_key(|(at_ns, _)| *at_ns);
        let count = self.waiting.partition_point(|(at_ns, _)| *at_ns <= end_ns);
        let mut text = String::new();
        for (at_ns, word) in self.waiting.drain(..count) {
            match word {
                Word::Event(seen) => {
                    let began_ns = *self.began_ns.get_or_insert(at_ns);
                    text.push_str(&event_line(began_ns, &seen));
                }
                Word::Output(line) => text.push_str(&line),
            }
            text.push('\n');
        }
        self.print(&text)
    }

    /// Both are gone: tells all that is left, and what became of the QPs.
    fn finish(&mut self) -> Result<(), String> {
        // Their output ends with them, but for what the threads that read it still hold.
        let started = Instant::now();
        while self.gather() && started.elapsed() < Duration::from_secs(1) {
            thread::sleep(TICK);
        }
        self.tell_until(u64::MAX)?;
        let summary = self.watcher.summary();
        if !summary.is_empty() {
            self.print(lang().pick("\nIn short:\n", "\n概括：\n"))?;
        }
        summary.iter().try_for_each(|line| self.print(&format!("  {line}\n")))
    }
}

/// The segments were kept for us. Both sides are gone by now.
impl Drop for Stage {
    fn drop(&mut self) {
        let ended_by_us = !self.goes_on();
        self.watcher.remove(ended_by_us);
    }
}

/// `0.123 ms  client  QP 0x1234    RESET → INIT    ibv_modify_qp: …`
fn event_line(began_ns: u64, seen: &Seen) -> String {
    let Told { subject, what, how } = &seen.told;
    let ms = seen.at_ns.saturating_sub(began_ns) as f64 / 1e6;
    let side = side_name(lang(), seen.side);
    format!("{ms:9.3} ms  {}  {}  {}  {how}", pad(side, 6), pad(subject, 11), pad(what, 13))
}

/// Starts one side; what it prints comes line by line through `lines`. Gives also the number by which its NICs are found.
fn start(
    role: &'static str,
    libraries: &Path,
    port: u16,
    words: &[&str],
    lines: &Sender<(u64, String)>,
) -> Result<(Child, u64), String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-g", "0", "-p", &port.to_string()]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run::prepare_to_follow(&mut command, libraries);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            both!(
                lang(),
                "{PROGRAM} is not installed; on Debian: apt-get install ibverbs-utils",
                "没有安装 {PROGRAM}；在 Debian 上：apt-get install ibverbs-utils"
            )
        }
        _ => {
            let error = error.in_words(lang());
            both!(lang(), "cannot run {PROGRAM}: {error}", "不能运行 {PROGRAM}：{error}")
        }
    })?;
    forward(role, child.stdout.take(), lines);
    forward(role, child.stderr.take(), lines);
    Ok((child, run))
}

fn forward(role: &'static str, stream: Option<impl Read + Send + 'static>, lines: &Sender<(u64, String)>) {
    let Some(stream) = stream else { return };
    let lines = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // The receiver goes away only when the demonstration is given up.
            let _ = lines
                .send((now_ns(), format!("{:14}{}  | {}", "", pad(side_name(lang(), role), 6), line.trim())));
        }
    });
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| {
        both!(lang(), "no free TCP port: {}", "没有空闲的 TCP 端口：{}", error.in_words(lang()))
    })
}

/// Looks, and does not connect: that would be taken for the client.
fn wait_listening(server: &mut Side, port: u16, stage: &mut Stage) -> Result<(), String> {
    let started = Instant::now();
    while !is_listening(port) && stage.goes_on() {
        if server.has_ended()?.is_some() || started.elapsed() > LIMIT {
            server.kill();
            return Err(both!(
                lang(),
                "the server, {PROGRAM}, did not come up; try: glassnic run -- {PROGRAM} -g 0",
                "服务端 {PROGRAM} 没有启动；试试：glassnic run -- {PROGRAM} -g 0"
            ));
        }
        stage.tick()?;
        thread::sleep(TICK);
    }
    Ok(())
}

/// Whether `/proc/net/tcp` or `tcp6` has a socket in state LISTEN (0A) on the port.
fn is_listening(port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        fs::read_to_string(table).unwrap_or_default().lines().any(|line| {
            let columns: Vec<&str> = line.split_whitespace().take(4).collect();
            matches!(columns[..], [_, address, _, "0A"] if address.ends_with(&local))
        })
    })
}

impl Side {
    fn has_ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.0.try_wait().map_err(|error| error.in_words(lang()))
    }

    /// Whether it ended well.
    fn finish(&mut self) -> Result<bool, String> {
        // It has closed its output, or has had its time: what is left is its end.
        let started = Instant::now();
        loop {
            if let Some(status) = self.has_ended()? {
                return Ok(status.success());
            }
            if started.elapsed() > Duration::from_secs(1) {
                self.kill();
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&mut self) {
        // Fails only for a child that has ended, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.kill();
    }
}
