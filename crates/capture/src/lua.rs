//! The Wireshark dissector of command records, made from the tables of opcodes, bodies and names.

use std::fmt::Write;

use glassnic_events::Errno;
use glassnic_wire::command::CommandOpcode;
use glassnic_wire::command::body::{BODIES, BodyInfo, Field};

use crate::names::Enumeration;

const HEAD: &str = r#"-- Wireshark's dissector for GlassNIC's command records: link type USER0 (147), 72 bytes, little-endian.
--
-- Made from the tables of crates/wire and crates/events; do not change it by hand:
--   GLASSNIC_UPDATE=1 cargo test -p glassnic-capture
-- To use it: wireshark -X lua_script:glassnic.lua CAPTURE, or copy it into Wireshark's folder of personal Lua plugins.

local LEN = 72
local record = Proto("glassnic", "GlassNIC command record")
"#;

const COMMON: &str = r#"
local f = {
  opcode = ProtoField.uint16("glassnic.opcode", "Opcode", base.HEX, names.Opcode),
  status = ProtoField.uint16("glassnic.status", "Status and flags", base.HEX),
  errno = ProtoField.uint16("glassnic.errno", "Errno", base.DEC, names.Errno, 0x0fff),
  done = ProtoField.bool("glassnic.flags.done", "Done", 16, nil, 0x8000),
  async = ProtoField.bool("glassnic.flags.async", "Submitted without waiting", 16, nil, 0x4000),
  batch = ProtoField.bool("glassnic.flags.batch", "Under one doorbell with the next", 16, nil, 0x2000),
  qpn = ProtoField.uint32("glassnic.qpn", "QPN", base.HEX),
  pd = ProtoField.uint32("glassnic.pd", "PD or object handle", base.HEX),
  seq = ProtoField.uint64("glassnic.seq", "Sequence number", base.DEC),
  timestamp_ns = ProtoField.uint64("glassnic.timestamp_ns", "Time (monotonic ns)", base.DEC),
}
"#;

const TAIL: &str = r#"
record.fields = {}
for _, field in pairs(f) do table.insert(record.fields, field) end
for _, body in pairs(b) do
  for _, field in ipairs(body) do table.insert(record.fields, field[1]) end
end

local refused = ProtoExpert.new("glassnic.refused", "Refused",
  expert.group.RESPONSE_CODE, expert.severity.WARN)
local short = ProtoExpert.new("glassnic.short", "Shorter than a command record",
  expert.group.MALFORMED, expert.severity.ERROR)
record.experts = { refused, short }

function record.dissector(buffer, pinfo, tree)
  pinfo.cols.protocol = "GlassNIC"
  local top = tree:add(record, buffer())
  if buffer:reported_length_remaining() < LEN or buffer:len() < LEN then
    top:add_proto_expert_info(short)
    return buffer:len()
  end
  local opcode = buffer(0, 2):le_uint()
  local errno = buffer(2, 2):le_uint() % 0x1000
  local qpn = buffer(4, 4):le_uint()
  local name = names.Opcode[opcode] or string.format("opcode 0x%04x", opcode)
  top:add_le(f.opcode, buffer(0, 2))
  local status = top:add_le(f.status, buffer(2, 2))
  local errno_item = status:add_le(f.errno, buffer(2, 2))
  status:add_le(f.done, buffer(2, 2))
  status:add_le(f.async, buffer(2, 2))
  status:add_le(f.batch, buffer(2, 2))
  top:add_le(f.qpn, buffer(4, 4))
  top:add_le(f.pd, buffer(8, 4))
  local info = string.format("%s qpn 0x%06x pd 0x%x", name, qpn, buffer(8, 4):le_uint())
  if errno ~= 0 then
    errno_item:add_proto_expert_info(refused)
    info = info .. " " .. (names.Errno[errno] or ("errno " .. errno))
  end
  for _, field in ipairs(bodies[opcode] or {}) do
    top:add_le(field[1], buffer(field[2], field[3]))
  end
  top:add_le(f.seq, buffer(56, 8))
  top:add_le(f.timestamp_ns, buffer(64, 8))
  top:append_text(": " .. info)
  pinfo.cols.info = info
  return LEN
end

DissectorTable.get("wtap_encap"):add((wtap_encaps or wtap).USER0, record)
"#;

/// The dissector's text, as it is checked in at `wireshark/glassnic.lua`.
#[must_use]
pub fn dissector() -> String {
    let mut out = HEAD.to_owned();
    // Writing to a string does not fail.
    let _ = tables(&mut out);
    out.push_str(TAIL);
    out
}

fn tables(out: &mut String) -> std::fmt::Result {
    writeln!(out, "\nlocal names = {{")?;
    for kind in Enumeration::ALL {
        values(out, kind.id(), kind.values())?;
    }
    let errnos = (1..0x1000).filter_map(|number| Some((number as u32, Errno(number).name()?)));
    values(out, "Errno", std::iter::once((0, "none")).chain(errnos).collect())?;
    writeln!(out, "}}")?;
    out.push_str(COMMON);
    writeln!(out, "\n-- Each body's fields: field, offset, bytes.\nlocal b = {{")?;
    for body in BODIES {
        writeln!(out, "  {} = {{", snake(body.name))?;
        for field in body.fields.iter().filter(|field| !field.is_reserved()) {
            let (maker, offset, len) = (proto_field(body, field), field.offset, field.len);
            writeln!(out, "    {{ {maker}, {offset}, {len} }},")?;
        }
        writeln!(out, "  }},")?;
    }
    writeln!(out, "}}\n\nlocal bodies = {{")?;
    for body in BODIES {
        for opcode in body.opcodes {
            writeln!(out, "  [{:#06x}] = b.{}, -- {opcode}", opcode.number(), snake(body.name))?;
        }
    }
    writeln!(out, "}}")
}

fn values(out: &mut String, name: &str, values: Vec<(u32, &'static str)>) -> std::fmt::Result {
    writeln!(out, "  {name} = {{")?;
    for (number, text) in values {
        writeln!(out, "    [{number}] = {},", quoted(text))?;
    }
    writeln!(out, "  }},")
}

/// The name of a field for display filters: `glassnic.modify_qp.timeout`.
#[must_use]
pub fn filter_name(opcode: CommandOpcode, field: &Field) -> Option<String> {
    let body = glassnic_wire::command::body::info(opcode)?;
    Some(format!("glassnic.{}.{}", snake(body.name), field.name))
}

fn proto_field(body: &BodyInfo, field: &Field) -> String {
    let abbreviation = quoted(&format!("glassnic.{}.{}", snake(body.name), field.name));
    let label = quoted(field.name);
    let names = Enumeration::of(body.name, field.name).map(|kind| format!(", names.{}", kind.id()));
    match field.len {
        16 => format!("ProtoField.ipv6({abbreviation}, {label})"),
        1 | 2 | 4 | 8 => {
            let base = if is_hex(field.name) { "HEX" } else { "DEC" };
            let (bits, names) = (8 * field.len, names.unwrap_or_default());
            format!("ProtoField.uint{bits}({abbreviation}, {label}, base.{base}{names})")
        }
        _ => format!("ProtoField.bytes({abbreviation}, {label})"),
    }
}

/// Whether people write a field's numbers in hexadecimal: numbers of objects, keys, addresses, masks, PSNs.
#[must_use]
pub fn is_hex(field: &str) -> bool {
    const PARTS: &[&str] = &[
        "qpn", "psn", "key", "mask", "addr", "iova", "cq", "srq", "xrcd", "handle", "access", "wr_id",
        "syndrome",
    ];
    PARTS.iter().any(|part| field.contains(part))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `ModifyQp` as `modify_qp`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}
