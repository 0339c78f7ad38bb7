//! Other people's programs over the same links: `ucx_perftest` of UCX and `fi_pingpong` of libfabric.

use std::ffi::OsString;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::child::{self, Child};
use crate::pair::Scale;
use crate::report::{Group, Kind, Report};
use crate::stats::{Figure, LARGE, Measure, SMALL};

/// One pair of processes may take that long.
const RUN_MAX: Duration = Duration::from_secs(60);
/// A server may take that long before it listens.
const LISTEN_MAX: Duration = Duration::from_secs(10);

/// Measures what can be compared with a link.
pub(crate) fn measure(group: Group, scale: Scale, report: &mut Report) {
    let (ucx, libfabric): (&[(&str, &str)], (&str, &str)) = match group {
        Group::Memory => return,
        Group::Shm => (&[("UCX posix", "posix"), ("UCX posix,cma", "posix,cma")], ("libfabric shm", "shm")),
        Group::Udp => (&[("UCX tcp", "tcp")], ("libfabric tcp", "tcp;ofi_rxm")),
    };
    for (who, transports) in ucx.iter().copied() {
        let found = find("ucx_perftest", "ucx-utils");
        report.add(group, who, Kind::Other, found.and_then(|program| ucx_all(&program, transports, scale)));
    }
    let (who, provider) = libfabric;
    let found = find("fi_pingpong", "libfabric-bin");
    report.add(group, who, Kind::Other, found.and_then(|program| libfabric_all(&program, provider, scale)));
}

/// Looks for a program on the path.
fn find(name: &str, package: &str) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()) {
        Some(file) => Ok(file.into_os_string()),
        None => bail!("{name} is not installed (apt-get install {package})"),
    }
}

/// A way to start one side: the port that the server listens on comes last.
type Side<'a> = &'a dyn Fn(u16) -> Command;

/// Runs a server and a client of it, a core each, and gives what the client prints.
fn run(server: Side<'_>, client: Side<'_>) -> Result<String> {
    let port = free_port()?;
    let silent = |mut command: Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let server = Child::spawn_on(1, &mut silent(server(port)))?;
    await_listener(port)?;
    let client = Child::spawn_on(0, silent(client(port)).stdout(Stdio::piped()))?;
    let mut both = [client, server];
    let mut stdout = both[0].stdout().context("no output to read")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    child::wait_all(&mut both, Instant::now() + RUN_MAX)?;
    match reader.join() {
        Ok(text) => Ok(text?),
        Err(_) => bail!("the reader of the output panicked"),
    }
}

/// A TCP port that nobody has now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr())?.port())
}

/// Waits until somebody listens on a port, without disturbing by a connection.
fn await_listener(port: u16) -> Result<()> {
    let until = Instant::now() + LISTEN_MAX;
    while Instant::now() < until {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        if tables.iter().flatten().flat_map(|table| table.lines()).any(|line| listens(line, port)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("the server does not listen")
}

/// A line of /proc/net/tcp is that of a listener (state 0A) on a port (proc(5)).
fn listens(line: &str, port: u16) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, _, "0A", ..] = words[..] else { return false };
    local.ends_with(&format!(":{port:04X}"))
}

/// Operation, test of a latency, test of a bandwidth.
const UCX_TESTS: [(&str, &str, &str); 3] = [
    ("SEND (tag)", "tag_lat", "tag_bw"),
    ("WRITE (put)", "ucp_put_lat", "ucp_put_bw"),
    ("READ (get)", "ucp_get", "ucp_get"),
];

fn ucx_all(program: &OsString, transports: &str, scale: Scale) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (op, lat, bw) in UCX_TESTS {
        let one = |test: &str, size: usize, count: usize| -> Result<Ucx> {
            let with = |port: u16| {
                let mut command = Command::new(program);
                command.env("UCX_TLS", transports).args(["-p", &port.to_string()]);
                command
            };
            let client = |port: u16| {
                let mut command = with(port);
                command.args(["127.0.0.1", "-f", "-v", "-t", test, "-s", &size.to_string()]);
                command.args(["-n", &count.to_string(), "-w", &(count / 10).max(1).to_string()]);
                command
            };
            ucx_line(&run(&with, &client)?)
        };
        let median_ns = one(lat, SMALL, scale.of(10_000))?.median_ns;
        let figure = Figure::Latency { median_ns, p99_ns: None };
        measures.push(Measure { op: op.into(), size: SMALL, figure });
        for size in LARGE {
            let bytes_per_s = one(bw, size, 3 * scale.messages(size))?.bytes_per_s;
            measures.push(Measure { op: op.into(), size, figure: Figure::Bandwidth { bytes_per_s } });
        }
    }
    Ok(measures)
}

/// The last line of `ucx_perftest -f -v`.
#[derive(Debug, PartialEq)]
struct Ucx {
    median_ns: f64,
    bytes_per_s: f64,
}

/// `iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr`: microseconds, MiB/s, 1/s.
fn ucx_line(text: &str) -> Result<Ucx> {
    let fields =
        |line: &str| line.split(',').map(|f| f.trim().parse::<f64>().ok()).collect::<Option<Vec<_>>>();
    match text.lines().rev().find_map(fields).as_deref() {
        Some([_, median_us, _, _, _, mib_per_s, _, _]) => {
            Ok(Ucx { median_ns: median_us * 1e3, bytes_per_s: mib_per_s * f64::from(1 << 20) })
        }
        _ => bail!("ucx_perftest printed no line of eight figures"),
    }
}

fn libfabric_all(program: &OsString, provider: &str, scale: Scale) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for size in [SMALL, LARGE[0], LARGE[1]] {
        let count = if size == SMALL { scale.of(10_000) } else { scale.messages(size) };
        let with = |flag: &'static str| {
            move |port: u16| {
                let mut command = Command::new(program);
                command.args(["-e", "rdm", "-p", provider, "-S", &size.to_string()]);
                command.args(["-I", &count.to_string(), flag, &port.to_string()]);
                command
            }
        };
        let client = |port: u16| {
            let mut command = with("-P")(port);
            command.arg("127.0.0.1");
            command
        };
        let us = pingpong_us(&run(&with("-B"), &client)?)?;
        let figure = match size {
            SMALL => Figure::Latency { median_ns: us * 1e3, p99_ns: None },
            _ => Figure::Bandwidth { bytes_per_s: size as f64 / (us * 1e-6) },
        };
        measures.push(Measure { op: "SEND (ping-pong)".into(), size, figure });
    }
    Ok(measures)
}

/// The microseconds of one transfer in the table of `fi_pingpong`: a mean, as it tells no median.
fn pingpong_us(text: &str) -> Result<f64> {
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let column = lines.find_map(|words| words.iter().position(|word| *word == "usec/xfer"));
    let value = column.zip(lines.next()).and_then(|(column, words)| words.get(column)?.parse().ok());
    value.context("fi_pingpong printed no usec/xfer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_print_is_read() {
        let head = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n";
        let figures = format!("{head}10000,0.5,0.155,0.155,1.00,2.00,6458240,6458240\n");
        assert_eq!(ucx_line(&figures).unwrap(), Ucx { median_ns: 500.0, bytes_per_s: 2097152.0 });
        assert!(ucx_line(head).is_err());
        let table = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                     1m      1k      =1k      1.9g        5.26s    398.93    2628.48       0.00\n";
        assert_eq!(pingpong_us(table).unwrap(), 2628.48);
        assert!(pingpong_us("no table").is_err());
    }

    #[test]
    fn a_listener_is_found_and_a_connection_is_not_one() {
        let line = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1 0";
        assert!(listens(line, 8080));
        assert!(!listens(line, 8081));
        assert!(!listens(&line.replace("0A", "01"), 8080));
    }
}
