//! The captures: what Linux's soft-RoCE put on the wire, in every service, over IPv4 and IPv6.

use std::path::Path;

/// How many RoCEv2 packets the captures hold.
pub(crate) const ROCE_PACKETS: usize = 1146;

/// A captured frame and where it came from.
pub(crate) struct Captured {
    pub(crate) file: String,
    pub(crate) bytes: Vec<u8>,
}

/// Every whole frame of every capture, by file name and order of arrival.
pub(crate) fn frames() -> Vec<Captured> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "pcap"))
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| read_pcap(path)).collect()
}

/// A classic little-endian pcap file of Ethernet frames.
fn read_pcap(path: &Path) -> Vec<Captured> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!((word(0), word(20)), (0xa1b2_c3d4, 1), "{file}: pcap with Ethernet");
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let (captured, whole) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, whole, "{file}: no frame is cut short");
        frames.push(Captured { file: file.clone(), bytes: bytes[at + 16..at + 16 + captured].to_vec() });
        at += 16 + captured;
    }
    frames
}
