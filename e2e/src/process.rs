//! Programs under a time limit, with all that they print.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::Place;
use crate::product;

/// How often a process or a port is looked at.
const TICK: Duration = Duration::from_millis(5);

/// How long a program may take to open its TCP socket.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);

/// Socket states as `/proc/net/tcp` has them (include/net/tcp_states.h).
const TCP_ESTABLISHED: &str = "01";
const TCP_LISTEN: &str = "0A";

/// A program to run: on GlassNIC unless [`Program::plain`] made it.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<String>,
    environment: Vec<(String, String)>,
    place: Place,
    user: Option<&'static str>,
    on_glassnic: bool,
    sysfs: bool,
    limit: Duration,
}

impl Program {
    /// A program that will use verbs through `glassnic run`.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            place: Place::Here,
            user: None,
            on_glassnic: true,
            sysfs: false,
            limit: Duration::from_secs(60),
        }
    }

    /// A program that has nothing to do with verbs.
    pub fn plain<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self { on_glassnic: false, ..Self::new(words) }
    }

    /// Adds words at the end.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Where it runs. A namespace has no default route: its device is put on its one interface.
    #[must_use]
    pub fn at(mut self, place: &Place) -> Self {
        self.place = place.clone();
        self
    }

    /// Who runs it; needs root.
    #[must_use]
    pub fn as_user(mut self, user: Option<&'static str>) -> Self {
        self.user = user;
        self
    }

    /// Gives it a view of the file system with the device (`glassnic run --sysfs`).
    #[must_use]
    pub fn sysfs(mut self) -> Self {
        self.sysfs = true;
        self
    }

    /// How long it may take; then it is killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(&self) -> Running {
        let words = self.command_line();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Cargo sets it for its own children; it must not decide which library a program finds.
        command.env_remove("LD_LIBRARY_PATH").current_dir(product::scratch());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(interface) = self.place.interface().filter(|_| self.on_glassnic) {
            command.env("GLASSNIC_DEVICES", format!("glass0={interface}"));
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", words[0]));
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        let line = self.words.join(" ");
        Running { child, stdout, stderr, line, started: Instant::now(), limit: self.limit }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run(&self) -> Finished {
        self.start().wait()
    }

    /// All wrappers exec, so the child's pid is the program's own. The program does not outlive the
    /// thread that started it (`PR_SET_PDEATHSIG`).
    fn command_line(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(namespace) = self.place.namespace() {
            words.extend(["ip", "netns", "exec", namespace].map(String::from));
        }
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(String::from));
        if let Some(user) = self.user {
            words.extend(["--reuid", user, "--regid", "nogroup", "--clear-groups"].map(String::from));
        }
        words.push("--".into());
        if self.on_glassnic {
            words.extend([product::glassnic().display().to_string(), "run".into()]);
            words.extend(self.sysfs.then(|| "--sysfs".into()));
            words.push("--".into());
        }
        words.extend(self.words.iter().cloned());
        words
    }
}

/// A program that was started. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    line: String,
    started: Instant,
    limit: Duration,
}

impl Running {
    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal; one that is no more is left in peace.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // It fails only for a process that has ended: a child, so its pid is not another's yet.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it listens on a TCP port. It does not connect: that would be taken for the client.
    ///
    /// # Errors
    /// One line, when it ended or did not come to listen within ten seconds.
    pub fn wait_listening(&mut self, port: u16) -> Result<(), String> {
        self.wait_socket(port, |pid| has_socket(pid, port, TCP_LISTEN), "listen on")
    }

    /// Waits until a peer has connected to a TCP port that it listened on: the connection is there, or was there
    /// for so short a time that only the missing listener tells of it.
    ///
    /// # Errors
    /// As [`Running::wait_listening`].
    pub fn wait_connected(&mut self, port: u16) -> Result<(), String> {
        let connected = |pid| has_socket(pid, port, TCP_ESTABLISHED) || !has_socket(pid, port, TCP_LISTEN);
        self.wait_socket(port, connected, "get a connection on")
    }

    fn wait_socket(&mut self, port: u16, reached: impl Fn(u32) -> bool, what: &str) -> Result<(), String> {
        let started = Instant::now();
        while !reached(self.pid()) {
            if self.poll().is_some() {
                return Err(format!("{} ended and did not {what} TCP port {port}", self.line));
            }
            if started.elapsed() > SOCKET_LIMIT {
                return Err(format!("{} did not {what} TCP port {port} in {SOCKET_LIMIT:?}", self.line));
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// Waits for its end, at most until its time limit.
    ///
    /// # Panics
    /// When the kernel does not tell its status.
    pub fn wait(mut self) -> Finished {
        let status = loop {
            if let Some(status) = self.poll() {
                break Some(status);
            }
            if self.started.elapsed() > self.limit {
                break None;
            }
            std::thread::sleep(TICK);
        };
        let took = self.started.elapsed();
        if status.is_none() {
            self.kill();
        }
        Finished {
            line: std::mem::take(&mut self.line),
            status,
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
            took,
        }
    }

    /// Moves its time limit to a time from now on.
    pub fn limit_from_now(&mut self, more: Duration) {
        self.limit = self.started.elapsed() + more;
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("{}: {error}", self.line))
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What became of a program.
#[derive(Debug)]
pub struct Finished {
    line: String,
    /// `None` when it ran into its time limit.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From its start to its end.
    pub took: Duration,
}

impl Finished {
    /// It ended by itself with status 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The exit status of a program that ended by itself.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }
}

/// The command, its status, and all that it printed.
impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ {}", self.line)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            for line in text.lines() {
                writeln!(f, "  {name}: {line}")?;
            }
        }
        match self.status {
            Some(status) => writeln!(f, "  {status} after {:.2?}", self.took),
            None => writeln!(f, "  killed at its limit, after {:.2?}", self.took),
        }
    }
}

/// Reads to the end in a thread of its own, so that the program never waits for a reader.
fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn text(reader: Option<JoinHandle<String>>) -> String {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}

/// Whether the network namespace of a process has a TCP socket on a local port in a state.
fn has_socket(pid: u32, port: u16, state: &str) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        sockets.lines().skip(1).any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            let (local, state_of) = (columns.next().unwrap_or_default(), columns.nth(1).unwrap_or_default());
            local.ends_with(&format!(":{port:04X}")) && state_of == state
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Cable;

    fn shell(script: &str) -> Program {
        Program::plain(["sh", "-c", script])
    }

    #[test]
    fn output_and_status_are_the_programs_own() {
        let finished = shell("echo out; echo err >&2; exit 3").run();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.code(), Some(3));
        assert!(!finished.succeeded());
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let finished = shell("exec sleep 20").limit(Duration::from_millis(50)).run();
        assert!(finished.status.is_none() && finished.took < Duration::from_secs(5), "{finished}");
    }

    #[test]
    fn a_signal_reaches_the_program_itself() {
        let running = shell("exec sleep 20").start();
        running.signal(Signal::TERM);
        let finished = running.wait();
        assert!(finished.took < Duration::from_secs(5) && finished.code().is_none(), "{finished}");
    }

    #[test]
    fn another_user_runs_a_program_when_asked() {
        let finished = shell("id -un").as_user(Some("nobody")).run();
        assert_eq!(finished.stdout, "nobody\n", "{finished}");
    }

    #[test]
    fn a_listening_socket_is_seen_without_connecting_to_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pid = std::process::id();
        assert!(has_socket(pid, port, TCP_LISTEN) && !has_socket(pid, port, TCP_ESTABLISHED));
        let _client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(has_socket(pid, port, TCP_ESTABLISHED));
        drop(listener);
        assert!(!has_socket(pid, port, TCP_LISTEN));
    }

    #[test]
    fn a_program_that_ends_will_not_listen() {
        let mut running = shell("exit 1").start();
        assert!(running.wait_listening(1).unwrap_err().contains("ended"));
    }

    #[test]
    fn the_ends_of_a_cable_reach_each_other_and_are_gone_afterwards() {
        let cable = Cable::lay();
        let [a, b] = &cable.ends;
        let device = crate::place::CABLE_INTERFACE;
        let script =
            format!("ip -br addr show {device}; ip route get {}; ip -6 route get {}", b.ipv4, b.ipv6);
        let finished = shell(&script).at(&a.place).run();
        assert!(finished.succeeded() && finished.stdout.contains("UP"), "{finished}");
        // No address waits for its duplicate check.
        assert!(finished.stdout.contains("fe80::") && !finished.stdout.contains("tentative"), "{finished}");
        let place = a.place.clone();
        drop(cable);
        assert!(!shell("true").at(&place).run().succeeded());
    }
}
