//! What the machine can do within one host, without any protocol: copies, a ring in shared memory, single copy.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use glassnic_ring::spsc::{Consumer, Producer, PushError};
use rustix::fs::MemfdFlags;

use crate::pair::{Partner, Scale, tell};
use crate::stats::{LARGE, SMALL, bandwidth, latency, time};
use crate::sys::{self, Rings};

/// Copies within a process.
pub(crate) fn memcpy(scale: Scale) -> Result<()> {
    for size in LARGE {
        let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
        let count = scale.messages(size);
        let rounds: Vec<Duration> = scale
            .rounds()
            .map(|_| {
                let mut copy = || black_box(&mut to).copy_from_slice(black_box(&from));
                time(|| (0..count).for_each(|_| copy())).0
            })
            .collect();
        tell(&bandwidth("copy", size, &rounds, count * size))?;
    }
    Ok(())
}

/// Bytes of a ring: room for the largest message at any place, and for another beside it.
const CAPACITY: usize = 4 << 20;

/// Records through a ring between two processes: one copy in, one copy out.
pub(crate) fn ring(partner: &mut Partner, scale: Scale) -> Result<()> {
    let (file, _keep) = shared_file(partner)?;
    let mut rings = Rings::attach(&file, CAPACITY, partner.first)?;
    partner.meet()?;
    let mut buffer = Vec::with_capacity(LARGE[1]);
    ring_latency(partner, &mut rings, &mut buffer, scale)?;
    for size in LARGE {
        let count = scale.messages(size);
        let message = vec![7u8; size];
        let mut rounds = Vec::new();
        for _ in scale.rounds() {
            partner.meet()?;
            let start = Instant::now();
            for _ in 0..count {
                if partner.first {
                    push(&mut rings.out, &message)?;
                } else {
                    pop(&mut rings.into, &mut buffer)?;
                }
            }
            // The round ends when the last message is out of the ring.
            if partner.first {
                pop(&mut rings.into, &mut buffer)?;
            } else {
                push(&mut rings.out, &[0])?;
            }
            rounds.push(start.elapsed());
        }
        if partner.first {
            tell(&bandwidth("message", size, &rounds, count * size))?;
        }
    }
    partner.meet()
}

fn ring_latency(partner: &mut Partner, rings: &mut Rings, buffer: &mut Vec<u8>, scale: Scale) -> Result<()> {
    let message = [7u8; SMALL];
    let mut samples = Vec::new();
    for counts in scale.trips() {
        if partner.first {
            let start = Instant::now();
            push(&mut rings.out, &message)?;
            pop(&mut rings.into, buffer)?;
            if counts {
                samples.push(start.elapsed());
            }
        } else {
            pop(&mut rings.into, buffer)?;
            push(&mut rings.out, &message)?;
        }
    }
    if partner.first { tell(&latency("message", &mut samples, 2)) } else { Ok(()) }
}

/// A file in memory that both processes have: the first makes it, the second opens it through /proc.
fn shared_file(partner: &mut Partner) -> Result<(File, Option<File>)> {
    if partner.first {
        let file = File::from(rustix::fs::memfd_create("glassnic-bench", MemfdFlags::CLOEXEC)?);
        (&file).write_all(&vec![0; Rings::file_len(CAPACITY)])?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        partner.exchange(&path)?;
        Ok((file.try_clone()?, Some(file)))
    } else {
        let path = partner.exchange(&String::new())?;
        let file = File::options().read(true).write(true).open(&path);
        Ok((file.with_context(|| format!("cannot open {path}"))?, None))
    }
}

fn push(ring: &mut Producer, message: &[u8]) -> Result<()> {
    loop {
        match ring.try_push(&[message]) {
            Ok(()) => return Ok(()),
            Err(PushError::Full) => std::hint::spin_loop(),
            Err(error) => return Err(error.into()),
        }
    }
}

fn pop(ring: &mut Consumer, buffer: &mut Vec<u8>) -> Result<()> {
    while !ring.pop_into(buffer)? {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Copies into the memory of another process, which sleeps meanwhile and hears nothing of it.
pub(crate) fn single_copy(partner: &mut Partner, scale: Scale) -> Result<()> {
    // Where there is no Yama it needs no leave.
    let _ = glassnic_link::cma::allow_peers();
    let memory: Vec<AtomicU64> = (0..LARGE[1] / 8).map(|_| AtomicU64::new(1)).collect();
    let ours = (std::process::id(), memory.as_ptr().expose_provenance() as u64);
    let (pid, to) = partner.exchange(&ours)?;
    if partner.first {
        let mut samples = Vec::new();
        for counts in scale.trips() {
            let (took, copied) = time(|| sys::push(pid, to, &memory[..SMALL / 8]));
            copied?;
            if counts {
                samples.push(took);
            }
        }
        tell(&latency("copy", &mut samples, 1))?;
        for size in LARGE {
            let count = scale.messages(size);
            let mut rounds = Vec::new();
            for _ in scale.rounds() {
                let all = || (0..count).try_for_each(|_| sys::push(pid, to, &memory[..size / 8]));
                let (took, copied) = time(all);
                copied?;
                rounds.push(took);
            }
            tell(&bandwidth("copy", size, &rounds, count * size))?;
        }
    }
    partner.meet()?;
    black_box(memory.first().map(|word| word.load(Ordering::Relaxed)));
    Ok(())
}
