//! Who is alive? A process is named by pid *and* start time, as pids come back, and by where its stack begins, as execve(2)
//! keeps both but leaves nothing of the program that we knew.

use std::fs;
use std::io;
use std::path::Path;

/// What `/proc/<pid>/stat` says of a process.
struct Stat {
    state: char,
    threads: u64,
    start_time: u64,
    start_stack: u64,
}

/// proc_pid_stat(5): the command name may hold blanks and parentheses, so fields count from the last `)`.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 3 is gone; 20 is num_threads, 22 is starttime, 28 is startstack.
    let threads = fields.nth(16)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    let start_stack = fields.nth(5)?.parse().ok()?;
    Some(Stat { state, threads, start_time, start_stack })
}

/// What tells a run of a program in a process from all others of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, 0 if unknown.
    pub start_time: u64,
    /// Where the stack begins; 0 if unknown. Random for each execve(2), unless address randomisation is off.
    pub start_stack: u64,
}

impl Identity {
    /// The calling process, as far as `/proc` tells.
    pub fn mine() -> Self {
        let pid = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(parse);
        let (start_time, start_stack) = stat.map_or((0, 0), |stat| (stat.start_time, stat.start_stack));
        Self { pid, start_time, start_stack }
    }

    /// Whether it still runs. A zombie does not. Costs a read of `/proc`: for suspicion, not for every packet.
    pub fn is_alive(&self) -> bool {
        let Self { pid, .. } = *self;
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) => parse(&text).is_none_or(|stat| self.is_told_by(&stat)),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists() =>
            {
                false
            }
            // Gone between open and read.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => false,
            // No /proc to read: the pid alone decides.
            Err(_) => i32::try_from(pid)
                .ok()
                .and_then(rustix::process::Pid::from_raw)
                .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)),
        }
    }

    fn is_told_by(&self, stat: &Stat) -> bool {
        // A leader that called pthread_exit is a zombie with living threads.
        let dead = matches!(stat.state, 'Z' | 'X') && stat.threads <= 1;
        // The kernel shows 0 or 1 instead of an address to those who may not see it.
        let hidden = |address| address <= 1;
        let same_stack =
            hidden(self.start_stack) || hidden(stat.start_stack) || self.start_stack == stat.start_stack;
        let same_start = self.start_time == 0 || self.start_time == stat.start_time;
        !dead && same_start && same_stack
    }
}

/// Inode of a namespace of the calling thread (`"net"`, `"pid"`), 0 where `/proc` does not tell.
pub fn namespace(kind: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let of = |who| fs::metadata(format!("/proc/{who}/ns/{kind}"));
    of("thread-self").or_else(|_| of("self")).map_or(0, |metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pid: u32) -> Identity {
        let stat = parse(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()).unwrap();
        Identity { pid, start_time: stat.start_time, start_stack: stat.start_stack }
    }

    #[test]
    fn knows_itself_and_the_dead() {
        let me = Identity::mine();
        assert!(me.is_alive());
        assert_eq!(of(me.pid), me);
        let later = Identity { start_time: me.start_time + 1, ..me };
        assert!(!later.is_alive(), "a later process of this pid is another");
        let before_exec = Identity { start_stack: me.start_stack ^ 0x1000, ..me };
        assert!(!before_exec.is_alive(), "an earlier program of this process is gone");
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Its echo says that execve(2) is over, in the course of which the kernel moves the stack once more.
        child.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let identity = of(child.id());
        assert!(identity.is_alive());
        child.kill().unwrap();
        // Not waited for: a zombie is dead.
        while identity.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_command_name_cannot_forge_fields() {
        let text = "7 (a) Z 1 (b) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 3 0 4242 0 1 2 3 4 5 6 7";
        let stat = parse(text).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start_time, stat.start_stack), ('S', 3, 4242, 5));
        assert!(parse("").is_none() && parse("7 (a) S 1").is_none());
    }
}
