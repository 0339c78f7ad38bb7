//! `glassnic demo`: two stock programs talk, and one watches.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{libdir, run};

/// The stock program, from rdma-core's examples: a server and a client that send messages to and fro.
const PROGRAM: &str = "ibv_rc_pingpong";

/// How long the server may take to listen, and the two to talk.
const LIMIT: Duration = Duration::from_secs(20);

const NEXT: &str = "\
Try next:
  glassnic run -- ibv_devinfo -v                 the device as a verbs program sees it
  glassnic run -- ib_write_bw                    perftest's server; the client takes its host name
  glassnic run -- ibv_rc_pingpong                without -g: refused, and why (client: … localhost)
  glassnic run -- YOUR_PROGRAM                   any verbs program, as it is";

/// Runs the demonstration.
///
/// # Errors
/// One line when the programs are missing, or did not succeed.
pub(crate) fn demo() -> Result<(), String> {
    let libraries = libdir::find()?;
    let port = free_port()?;
    println!(
        "A server and a client, both {PROGRAM} as your distribution built it, each on a NIC of its own:\n"
    );
    let (lines, told) = channel();
    let mut server = start("server", &libraries, port, &[], &lines)?;
    if let Err(why) = wait_listening(&mut server, port) {
        drop(lines);
        // What the server said before it ended is the best explanation.
        told.iter().for_each(|line| println!("{line}"));
        return Err(why);
    }
    let mut client = start("client", &libraries, port, &["127.0.0.1"], &lines)?;
    drop(lines);
    let started = Instant::now();
    // Ends when both have closed their output, or the time is up.
    while let Ok(line) = told.recv_timeout(LIMIT.saturating_sub(started.elapsed())) {
        println!("{line}");
    }
    let succeeded = [finish(&mut client)?, finish(&mut server)?];
    if succeeded != [true, true] {
        return Err(format!("{PROGRAM} failed; its own words stand above"));
    }
    println!("\n{NEXT}");
    Ok(())
}

/// Starts one side; what it prints comes line by line through `lines`.
fn start(
    role: &'static str,
    libraries: &Path,
    port: u16,
    words: &[&str],
    lines: &Sender<String>,
) -> Result<Child, String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-g", "0", "-p", &port.to_string()]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    run::prepare(&mut command, libraries);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{PROGRAM} is not installed; on Debian: apt-get install ibverbs-utils")
        }
        _ => format!("cannot run {PROGRAM}: {error}"),
    })?;
    forward(role, child.stdout.take(), lines);
    forward(role, child.stderr.take(), lines);
    Ok(child)
}

fn forward(role: &'static str, stream: Option<impl Read + Send + 'static>, lines: &Sender<String>) {
    let Some(stream) = stream else { return };
    let lines = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // The receiver goes away only when the demonstration is given up.
            let _ = lines.send(format!("  {role} | {}", line.trim()));
        }
    });
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| format!("no free TCP port: {error}"))
}

/// Looks, and does not connect: that would be taken for the client.
fn wait_listening(server: &mut Child, port: u16) -> Result<(), String> {
    let started = Instant::now();
    while !is_listening(port) {
        let ended = server.try_wait().map_err(|error| error.to_string())?.is_some();
        if ended || started.elapsed() > LIMIT {
            kill(server);
            return Err(format!(
                "the server, {PROGRAM}, did not come up; try: glassnic run -- {PROGRAM} -g 0"
            ));
        }
        thread::sleep(Duration::from_millis(20));
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

fn finish(child: &mut Child) -> Result<bool, String> {
    // It has closed its output, or has had its time: what is left is its end.
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.success());
        }
        if started.elapsed() > Duration::from_secs(1) {
            kill(child);
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn kill(child: &mut Child) {
    // Fails only for a child that has ended, which is what is wanted.
    let _ = child.kill();
    let _ = child.wait();
}
