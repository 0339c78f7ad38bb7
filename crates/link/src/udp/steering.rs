//! A packet filter that hands packets to the process that owns their QP number.

use super::Sockets;
use crate::sys::socket::attach_reuseport_filter;
use std::io;

/// Offset in the UDP payload of the word whose low 24 bits are the destination QP number (BTH bytes 4 to 7).
const QPN_WORD: u32 = 4;
/// Blocks of 4096 QP numbers, as the node directory hands them out.
const BLOCK_SHIFT: u32 = 12;
/// Comparisons in a program. Each packet runs through them, and the kernel limits their memory (net.core.optmem_max).
const RULES_MAX: usize = 512;

/// Make the kernel choose the member of our SO_REUSEPORT group by QP number: `rules` are (block, place in the group), as
/// [`crate::directory::Node::steering`] gives them. It replaces what was attached before, for the whole group. Packets for
/// other blocks are spread by hash, as are those beyond what the kernel lets us say.
///
/// # Errors
/// System calls.
pub fn attach_steering(sockets: &Sockets, rules: &[(u16, u32)]) -> io::Result<()> {
    let rules = &rules[..rules.len().min(RULES_MAX)];
    for (_, fd) in sockets.fds() {
        let mut count = rules.len();
        loop {
            match attach_reuseport_filter(fd, &program(&rules[..count])) {
                Ok(()) => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && count > 0 => count /= 2,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

const fn step(code: u32, jump_true: u8, jump_false: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

fn program(rules: &[(u16, u32)]) -> Vec<libc::sock_filter> {
    let mut program = vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, QPN_WORD),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x00FF_FFFF),
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, BLOCK_SHIFT),
    ];
    for (block, place) in rules {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, u32::from(*block)));
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, *place));
    }
    // No such member: the kernel falls back to its hash.
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
    program
}
