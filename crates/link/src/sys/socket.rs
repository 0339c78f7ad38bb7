//! Batched datagrams with control messages, and socket options that take plain values.
//!
//! # Safety
//!
//! The message headers that the kernel gets are built here from slices, used within one call and forgotten.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages handed to the kernel in one call.
pub(crate) const CALL_MAX: usize = 16;
/// Room for a socket address of either family.
pub(crate) const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();
/// Room for control messages.
pub(crate) const CONTROL_LEN: usize = 160;

/// A socket address of either family, aligned as both.
#[derive(Clone, Copy)]
#[repr(align(4))]
pub(crate) struct NameBytes(pub(crate) [u8; NAME_LEN]);

/// Control messages, aligned as their headers.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(crate) struct ControlBytes(pub(crate) [u8; CONTROL_LEN]);

/// One datagram to send (or, with a segment size among the control messages, several).
pub(crate) struct Outgoing<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) control: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Where the kernel puts one received message.
pub(crate) struct Incoming {
    pub(crate) payload: Box<[u8]>,
    pub(crate) len: usize,
    pub(crate) name: NameBytes,
    pub(crate) control: ControlBytes,
    pub(crate) control_len: usize,
    pub(crate) truncated: bool,
}

impl Incoming {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            payload: vec![0; capacity].into_boxed_slice(),
            len: 0,
            name: NameBytes([0; NAME_LEN]),
            control: ControlBytes([0; CONTROL_LEN]),
            control_len: 0,
            truncated: false,
        }
    }

    /// A header by which the kernel writes into it.
    fn header(&mut self, iov: &mut libc::iovec) -> libc::msghdr {
        *iov = libc::iovec { iov_base: self.payload.as_mut_ptr().cast(), iov_len: self.payload.len() };
        let mut header = empty_header();
        header.msg_name = self.name.0.as_mut_ptr().cast();
        header.msg_namelen = NAME_LEN as u32;
        header.msg_iov = iov;
        header.msg_iovlen = 1;
        header.msg_control = self.control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_LEN as _;
        header
    }

    /// Notes what the kernel says of a message of `len` bytes that it wrote.
    fn filled(&mut self, len: usize, header: &libc::msghdr) {
        self.len = len.min(self.payload.len());
        self.control_len = header.msg_controllen.min(CONTROL_LEN);
        self.truncated = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    }
}

/// An all-zero message header. (Its padding differs between C libraries, so that it has no literal.)
fn empty_header() -> libc::msghdr {
    // SAFETY: null pointers and zero lengths are valid.
    unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() }
}

fn outgoing_header(message: &Outgoing<'_>, iov: &mut libc::iovec) -> libc::msghdr {
    // The kernel does not write through these; the C types just do not say so.
    *iov =
        libc::iovec { iov_base: message.payload.as_ptr().cast_mut().cast(), iov_len: message.payload.len() };
    let mut header = empty_header();
    header.msg_name = message.name.as_ptr().cast_mut().cast();
    header.msg_namelen = message.name.len() as u32;
    header.msg_iov = iov;
    header.msg_iovlen = 1;
    header.msg_control = message.control.as_ptr().cast_mut().cast();
    header.msg_controllen = message.control.len() as _;
    header
}

/// Send up to [`CALL_MAX`] of the messages in one call; returns how many went. An error means that the first did not.
pub(crate) fn send_many(fd: BorrowedFd<'_>, messages: &[Outgoing<'_>]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    // One small packet is the common case, and needs no arrays.
    if let [message] = messages {
        let mut iov = none;
        let header = outgoing_header(message, &mut iov);
        // SAFETY: the header points to slices and to `iov`, which outlive the call.
        let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) };
        return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
    }
    let mut iovs = [none; CALL_MAX];
    let mut headers: [MaybeUninit<libc::mmsghdr>; CALL_MAX] = [const { MaybeUninit::uninit() }; CALL_MAX];
    let mut count = 0;
    for ((message, iov), header) in messages.iter().zip(&mut iovs).zip(&mut headers) {
        header.write(libc::mmsghdr { msg_hdr: outgoing_header(message, iov), msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers are initialised, and what they point to outlives the call.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count, flags as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receive up to [`CALL_MAX`] messages into `slots` without waiting; returns how many were filled. EAGAIN is an error.
pub(crate) fn receive_many(fd: BorrowedFd<'_>, slots: &mut [Incoming]) -> io::Result<usize> {
    if let [slot] = slots {
        return receive_one(fd, slot).map(|()| 1);
    }
    let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut iovs = [none; CALL_MAX];
    let mut headers: [MaybeUninit<libc::mmsghdr>; CALL_MAX] = [const { MaybeUninit::uninit() }; CALL_MAX];
    let mut count = 0;
    for ((slot, iov), header) in slots.iter_mut().zip(&mut iovs).zip(&mut headers) {
        header.write(libc::mmsghdr { msg_hdr: slot.header(iov), msg_len: 0 });
        count += 1;
    }
    let (flags, no_timeout) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
    // SAFETY: the first `count` headers are initialised; they point into `slots` and `iovs`, which outlive the call.
    let received =
        unsafe { libc::recvmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count, flags as _, no_timeout) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (slot, header) in slots.iter_mut().zip(&headers).take(received) {
        // SAFETY: initialised above, and `received` does not exceed `count`.
        let header = unsafe { header.assume_init_ref() };
        slot.filled(header.msg_len as usize, &header.msg_hdr);
    }
    Ok(received)
}

/// Receive a message without waiting: cheaper than the call for many, which counts where there is mostly none.
fn receive_one(fd: BorrowedFd<'_>, slot: &mut Incoming) -> io::Result<()> {
    let mut iov = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut header = slot.header(&mut iov);
    // SAFETY: the header points into `slot` and `iov`, which outlive the call.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    slot.filled(len, &header);
    Ok(())
}

/// Set an option that takes an int.
pub(crate) fn set_int(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set(fd, level, option, &value)
}

fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `value`.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Attach a classic BPF program that chooses the member of a SO_REUSEPORT group (socket(7)).
pub(crate) fn attach_reuseport_filter(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the program and does not write to it.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}
