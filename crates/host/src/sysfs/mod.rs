//! What sysfs would say of our devices, for programs that look there instead of asking verbs.
//!
//! Nobody can add to the kernel's sysfs. So `glassnic run --sysfs` gives a program a view of the file system of its own, in
//! which the classes `infiniband` and `infiniband_verbs` are ours ([`enter`]), and the library in the program keeps their
//! files true when the interface changes ([`renew`]). The files are those of Documentation/ABI/stable/sysfs-class-infiniband.

mod view;

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use glassnic_nic::port::GID_TABLE_LEN;

use crate::devices::HostDevice;

pub use view::{Obstacle, enter};

/// Where the library finds the files; [`enter`]'s caller sets it to [`CLASSES`] for the program.
pub const VARIABLE: &str = "GLASSNIC_SYSFS";

/// Where sysfs has its classes.
pub const CLASSES: &str = "/sys/class";

/// The classes that are ours.
const OURS: [&str; 2] = ["infiniband", "infiniband_verbs"];

/// The version of the interface of uverbs (`IB_USER_VERBS_ABI_VERSION`).
const VERBS_ABI: &str = "6";

/// One file.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Below the folder of classes.
    path: String,
    what: What,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// A line, without its newline.
    Line(String),
    Link(String),
    /// Nothing now, but there may have been something.
    Absent,
}

/// All that there is about a device.
fn entries(device: &HostDevice) -> Vec<Entry> {
    let (name, index) = (&device.name, device.index);
    let port = device.port();
    let (state, phys_state) =
        if port.active { ("4: ACTIVE", "5: LinkUp") } else { ("1: DOWN", "3: Disabled") };
    let guid = grouped(&device.guid.to_be_bytes());
    let mut all = Vec::new();
    let mut add = |path: String, what: What| all.push(Entry { path, what });
    let mut line = |path: String, text: &str| add(path, What::Line(text.into()));
    for (file, text) in [
        ("node_type", "1: CA"),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", name),
        ("fw_ver", env!("CARGO_PKG_VERSION")),
        ("ports/1/state", state),
        ("ports/1/phys_state", phys_state),
        ("ports/1/rate", "100 Gb/sec (4X EDR)"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/lid", "0x0"),
        ("ports/1/lid_mask_count", "0"),
        ("ports/1/sm_lid", "0x0"),
        ("ports/1/sm_sl", "0"),
        ("ports/1/cap_mask", "0x04010000"),
        ("ports/1/pkeys/0", "0xffff"),
    ] {
        line(format!("infiniband/{name}/{file}"), text);
    }
    line("infiniband_verbs/abi_version".into(), VERBS_ABI);
    line(format!("infiniband_verbs/uverbs{index}/ibdev"), name);
    // The stand-in for its file is the null device.
    line(format!("infiniband_verbs/uverbs{index}/dev"), "1:3");
    add(
        format!("infiniband/{name}/device/net/{}", device.interface),
        What::Link(format!("{CLASSES}/net/{}", device.interface)),
    );
    let gids = device.gids();
    for index in 0..u16::from(GID_TABLE_LEN) {
        let entry = gids.iter().find(|entry| entry.index == index);
        let port = format!("infiniband/{name}/ports/1");
        let gid = entry.map_or([0; 16], |entry| entry.gid);
        add(format!("{port}/gids/{index}"), What::Line(grouped(&gid)));
        // Of an empty index the kernel has files that cannot be read.
        let attribute = |text: Option<&str>| text.map_or(What::Absent, |text| What::Line(text.into()));
        add(format!("{port}/gid_attrs/types/{index}"), attribute(entry.map(|_| "RoCE v2")));
        add(format!("{port}/gid_attrs/ndevs/{index}"), attribute(entry.map(|entry| entry.ifname.as_str())));
    }
    all
}

/// Groups of four digits, as sysfs writes a GUID or a GID.
fn grouped(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(2).map(|pair| pair.iter().map(|b| format!("{b:02x}")).collect()).collect();
    groups.join(":")
}

/// Writes the files of a device where they are not so already. Readers see the old line or the new one.
fn write(classes: &Path, device: &HostDevice) -> io::Result<()> {
    for Entry { path, what } in entries(device) {
        let path = classes.join(path);
        let absent =
            |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
        match what {
            What::Absent => fs::remove_file(path).or_else(absent)?,
            What::Line(text) => {
                let text = text + "\n";
                if fs::read(&path).is_ok_and(|now| now == text.as_bytes()) {
                    continue;
                }
                // Two processes of one view may do this at once.
                let new = path.with_extension(format!("new{}", std::process::id()));
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(&new, text)?;
                fs::rename(new, path)?;
            }
            What::Link(target) => {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                match symlink(target, path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    other => other?,
                }
            }
        }
    }
    Ok(())
}

/// Brings the files of the devices up to date, in a program that was started with a view of its own.
pub(crate) fn renew(devices: &[std::sync::Arc<HostDevice>]) {
    let Some(classes) = std::env::var_os(VARIABLE).filter(|classes| !classes.is_empty()) else { return };
    for device in devices {
        // Who looks there finds the old state; nobody is there to be told.
        let _ = write(Path::new(&classes), device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::testing::device;
    use glassnic_link::iface::Interface;

    fn interface(addrs: &[&str]) -> Interface {
        Interface {
            name: "eth7".into(),
            index: 7,
            up: true,
            running: true,
            loopback: false,
            mtu: 1500,
            mac: Some([2, 0, 0, 0, 0, 7]),
            addrs: addrs.iter().map(|addr| addr.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn files_say_what_the_device_is_and_follow_it() {
        let folder = std::env::temp_dir().join(format!("glassnic-sysfs-{}", std::process::id()));
        let device = device("glass0", &interface(&["192.0.2.7", "fe80::7"]));
        let read = |path: &str| fs::read_to_string(folder.join("infiniband/glass0").join(path)).ok();
        write(&folder, &device).unwrap();
        assert_eq!(read("node_guid").unwrap(), "0000:00ff:fe00:0007\n");
        assert_eq!(read("ports/1/gids/0").unwrap(), "fe80:0000:0000:0000:0000:0000:0000:0007\n");
        assert_eq!(read("ports/1/gids/1").unwrap(), "0000:0000:0000:0000:0000:ffff:c000:0207\n");
        assert_eq!(read("ports/1/gid_attrs/types/1").unwrap(), "RoCE v2\n");
        assert_eq!(read("ports/1/gid_attrs/ndevs/1").unwrap(), "eth7\n");
        assert_eq!(read("ports/1/gids/63").unwrap(), "0000:0000:0000:0000:0000:0000:0000:0000\n");
        assert_eq!(read("ports/1/gid_attrs/types/2"), None);
        let link = fs::read_link(folder.join("infiniband/glass0/device/net/eth7")).unwrap();
        assert_eq!(link, Path::new("/sys/class/net/eth7"));
        device.update(Some(&Interface { running: false, ..interface(&["fe80::7"]) }));
        write(&folder, &device).unwrap();
        assert_eq!(read("ports/1/state").unwrap(), "1: DOWN\n");
        assert_eq!(read("ports/1/gids/1").unwrap(), read("ports/1/gids/63").unwrap());
        assert_eq!(read("ports/1/gid_attrs/ndevs/1"), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
