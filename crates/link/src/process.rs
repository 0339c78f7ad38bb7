//! Who is alive? A process is named by pid *and* start time, as pids come back.

use std::fs;
use std::io;
use std::path::Path;

/// What `/proc/<pid>/stat` says of a process.
struct Stat {
    state: char,
    threads: u64,
    start_time: u64,
}

/// proc_pid_stat(5): the command name may hold blanks and parentheses, so fields count from the last `)`.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 3 is gone; 20 is num_threads, 22 is starttime.
    let threads = fields.nth(16)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, threads, start_time })
}

/// Start time of a process in clock ticks since boot.
///
/// # Errors
/// As reading `/proc/<pid>/stat`.
pub fn start_time(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse(&text).map(|stat| stat.start_time).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether the process that had this pid and start time still runs. A zombie does not.
/// Costs a read of `/proc`: for suspicion, not for every packet.
pub fn is_alive(pid: u32, start_time: u64) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => parse(&text).is_none_or(|stat| {
            // A leader that called pthread_exit is a zombie with living threads.
            let dead = matches!(stat.state, 'Z' | 'X') && stat.threads <= 1;
            stat.start_time == start_time && !dead
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists() => {
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

/// Inode of a namespace of the calling thread (`"net"`, `"pid"`), 0 where `/proc` does not tell.
pub fn namespace(kind: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let of = |who| fs::metadata(format!("/proc/{who}/ns/{kind}"));
    of("thread-self").or_else(|_| of("self")).map_or(0, |metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself_and_the_dead() {
        let me = std::process::id();
        let started = start_time(me).unwrap();
        assert!(is_alive(me, started));
        assert!(!is_alive(me, started + 1), "a later process of this pid is another");
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        assert!(is_alive(child.id(), started));
        child.kill().unwrap();
        // Not waited for: a zombie is dead.
        while is_alive(child.id(), started) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!is_alive(child.id(), started));
    }

    #[test]
    fn a_command_name_cannot_forge_fields() {
        let text = "7 (a) Z 1 (b) S 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 3 0 4242 0";
        let stat = parse(text).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start_time), ('S', 3, 4242));
        assert!(parse("").is_none() && parse("7 (a) S 1").is_none());
    }
}
