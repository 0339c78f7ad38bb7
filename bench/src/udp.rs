//! What UDP can do on this host, without any protocol but a count of what has arrived.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::net::sockopt;

use crate::pair::{Partner, Scale, tell};
use crate::stats::{LARGE, SMALL, bandwidth, latency};
use crate::sys::{Offload, set_offload};

/// Payload of a datagram: the largest path MTU of RoCEv2.
const DATAGRAM: usize = 4096;
/// Datagrams of a segmented send: what the IPv4 length field leaves.
const SEGMENTS: usize = 15;
/// The receiver says what has arrived after that many bytes at the latest.
const REPORT: usize = 32 << 10;
/// Bytes on their way at most.
const WINDOW_MAX: usize = 1 << 20;
/// Wished size of the socket buffers in bytes, as GlassNIC wishes it.
const BUFFER: usize = 4 << 20;
/// Nothing arrives for that long: something is lost for ever.
const LOST: Duration = Duration::from_secs(2);

/// Measures datagrams, one a call or (`offload`) many a call.
pub(crate) fn measure(partner: &mut Partner, scale: Scale, offload: bool) -> Result<()> {
    let socket = connect(partner)?;
    if offload {
        let missing = "this kernel has no segmentation for UDP";
        if partner.first {
            set_offload(&socket, Offload::Segment(DATAGRAM as u16)).context(missing)?;
        } else {
            set_offload(&socket, Offload::Merge).context(missing)?;
        }
    } else {
        measure_latency(partner, scale, &socket)?;
    }
    let buffer = sockopt::socket_recv_buffer_size(&socket)?;
    // The least that either side has: the kernel counts its own overhead too, which about doubles a datagram.
    let window = (partner.exchange(&buffer)?.min(buffer) / 4).clamp(4 * REPORT, WINDOW_MAX);
    for size in LARGE {
        let count = scale.messages(size);
        let mut rounds = Vec::new();
        for _ in scale.rounds() {
            partner.meet()?;
            let start = Instant::now();
            if partner.first {
                let send_len = if offload { SEGMENTS * DATAGRAM } else { DATAGRAM };
                send_all(&socket, size, count, send_len, window)?;
            } else {
                receive_all(&socket, size * count)?;
            }
            rounds.push(start.elapsed());
        }
        if partner.first {
            tell(&bandwidth("message", size, &rounds, count * size))?;
        }
    }
    partner.meet()
}

fn connect(partner: &mut Partner) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind a UDP socket")?;
    let port = partner.exchange(&socket.local_addr()?.port())?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nonblocking(true)?;
    sockopt::set_socket_recv_buffer_size(&socket, BUFFER)?;
    sockopt::set_socket_send_buffer_size(&socket, BUFFER)?;
    partner.meet()?;
    Ok(socket)
}

/// Repeats a call that would block, and gives up when it would for too long.
fn spin(mut call: impl FnMut() -> std::io::Result<usize>) -> Result<usize> {
    let mut since = None;
    loop {
        match call() {
            Ok(len) => return Ok(len),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if since.get_or_insert_with(Instant::now).elapsed() > LOST {
                    bail!("a datagram got lost on the way through this host");
                }
            }
            Err(e) => return Err(e.into()),
        }
    }
}

fn measure_latency(partner: &mut Partner, scale: Scale, socket: &UdpSocket) -> Result<()> {
    let mut message = [7u8; SMALL];
    let mut samples = Vec::new();
    for counts in scale.trips() {
        if partner.first {
            let start = Instant::now();
            spin(|| socket.send(&message))?;
            spin(|| socket.recv(&mut message))?;
            if counts {
                samples.push(start.elapsed());
            }
        } else {
            spin(|| socket.recv(&mut message))?;
            spin(|| socket.send(&message))?;
        }
    }
    if partner.first { tell(&latency("message", &mut samples, 2)) } else { Ok(()) }
}

/// Sends `count` messages of `size` bytes, at most `send_len` bytes a call, and waits until all has arrived.
fn send_all(socket: &UdpSocket, size: usize, count: usize, send_len: usize, window: usize) -> Result<()> {
    let message = vec![7u8; size];
    let (mut sent, mut arrived) = (0, 0);
    let mut report = [0; 8];
    let mut hear = |arrived: &mut usize| -> Result<()> {
        spin(|| socket.recv(&mut report))?;
        *arrived = usize::from_le_bytes(report);
        Ok(())
    };
    for _ in 0..count {
        for part in message.chunks(send_len) {
            while sent + part.len() - arrived > window {
                hear(&mut arrived)?;
            }
            spin(|| socket.send(part))?;
            sent += part.len();
        }
    }
    while arrived < sent {
        hear(&mut arrived)?;
    }
    Ok(())
}

/// Receives `total` bytes and reports on the way.
fn receive_all(socket: &UdpSocket, total: usize) -> Result<()> {
    let mut buffer = vec![0u8; 1 << 16];
    let (mut arrived, mut reported) = (0usize, 0);
    while arrived < total {
        arrived += spin(|| socket.recv(&mut buffer))?;
        if arrived - reported >= REPORT || arrived == total {
            spin(|| socket.send(&arrived.to_le_bytes()))?;
            reported = arrived;
        }
    }
    Ok(())
}
