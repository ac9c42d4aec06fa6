//! Packets compared with tshark in both directions, and the commands of `fabricmark wire` that do not need it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use fabricmark_header::infiniband::opcode::{CNP, RC_SEND_FIRST};
use fabricmark_packet::build::{self, build, handshake};
use fabricmark_packet::capture::{self, Captured, Form, LinkType};
use fabricmark_packet::dissect::{Dissection, Part, Verdict, dissect};
use fabricmark_wire::frame::TCP_TIMESTAMPS;
use fabricmark_wire::{Family, Link, Operation, Stack};
use tempfile::TempDir;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/packet/tests/samples");

/// Header and field here, and tshark's name of the field.
const FIELDS: [(&str, &str, &str); 44] = [
    ("Ethernet", "ether_type", "eth.type"),
    ("802.1Q", "vlan", "vlan.id"),
    ("ARP", "operation", "arp.opcode"),
    ("IPv4", "total_bytes", "ip.len"),
    ("IPv4", "identification", "ip.id"),
    ("IPv4", "ttl", "ip.ttl"),
    ("IPv4", "more_fragments", "ip.flags.mf"),
    ("IPv6", "payload_bytes", "ipv6.plen"),
    ("IPv6", "hop_limit", "ipv6.hlim"),
    ("Fragment", "identification", "ipv6.fraghdr.ident"),
    ("UDP", "source_port", "udp.srcport"),
    ("UDP", "destination_port", "udp.dstport"),
    ("UDP", "bytes", "udp.length"),
    ("TCP", "sequence", "tcp.seq_raw"),
    ("TCP", "acknowledgement", "tcp.ack_raw"),
    ("TCP", "window", "tcp.window_size_value"),
    ("TCP", "syn", "tcp.flags.syn"),
    ("LRH", "next_header", "infiniband.lrh.lnh"),
    ("LRH", "dlid", "infiniband.lrh.dlid"),
    ("LRH", "slid", "infiniband.lrh.slid"),
    ("LRH", "packet_words", "infiniband.lrh.pktlen"),
    ("GRH", "payload_bytes", "infiniband.grh.paylen"),
    ("GRH", "next_header", "infiniband.grh.nxthdr"),
    ("GRH", "hop_limit", "infiniband.grh.hoplmt"),
    ("BTH", "opcode", "infiniband.bth.opcode"),
    ("BTH", "pad", "infiniband.bth.padcnt"),
    ("BTH", "pkey", "infiniband.bth.p_key"),
    ("BTH", "destination_qp", "infiniband.bth.destqp"),
    ("BTH", "psn", "infiniband.bth.psn"),
    ("DETH", "qkey", "infiniband.deth.q_key"),
    ("DETH", "source_qp", "infiniband.deth.srcqp"),
    ("RETH", "virtual_address", "infiniband.reth.va"),
    ("RETH", "rkey", "infiniband.reth.r_key"),
    ("RETH", "dma_bytes", "infiniband.reth.dmalen"),
    ("AETH", "msn", "infiniband.aeth.msn"),
    ("MAD", "class", "infiniband.mad.mgmtclass"),
    ("MAD", "transaction", "infiniband.mad.transactionid"),
    ("MAD", "attribute", "infiniband.mad.attributeid"),
    ("REQ", "service", "infiniband.cm.req.serviceid"),
    ("REQ", "local_qp", "infiniband.cm.req.localqpn"),
    ("REQ", "path_mtu", "infiniband.cm.req.pppmtu"),
    ("REP", "starting_psn", "infiniband.cm.rep.startpsn"),
    ("RTU", "remote_id", "infiniband.cm.rtu.remotecommid"),
    ("DREP", "local_id", "infiniband.cm.drsp.localcommid"),
];

/// Checksums here and in tshark, with tshark's status field: 0 bad, 1 good, 3 absent, 4 illegal.
const STATUS: [(&str, &str); 3] = [
    ("IPv4 checksum", "ip.checksum.status"),
    ("UDP checksum", "udp.checksum.status"),
    ("TCP checksum", "tcp.checksum.status"),
];
const CRCS: [(&str, &str); 2] =
    [("ICRC", "infiniband.invariant.crc"), ("VCRC", "infiniband.variant.crc")];

/// tshark's columns for each packet; `None` if tshark is not installed.
fn tshark(file: &Path) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-T", "fields", "-E", "occurrence=f"]);
    for protocol in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    // Payloads of verbs are arbitrary; this heuristic takes short ones for its protocol.
    command.args(["--disable-heuristic", "rpcrdma_infiniband"]);
    command.args(["-e", "frame.protocols", "-e", "_ws.malformed"]);
    for (_, _, name) in FIELDS {
        command.args(["-e", name]);
    }
    for (_, name) in STATUS.iter().chain(&CRCS) {
        command.args(["-e", name]);
    }
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| line.split('\t').map(str::to_owned).collect());
    Some(rows.collect())
}

/// The protocols of a packet, with tshark's names.
fn protocols(told: &Dissection) -> String {
    let mut names = Vec::new();
    if told.link_type == LinkType::Infiniband {
        names.push("erf");
    }
    let mut tag = "vlan";
    for part in &told.parts {
        let (layout, at) = match part {
            Part::Header { layout, at } => (layout, at),
            Part::Data { name: "hop-by-hop options", .. } => {
                names.push("ipv6.hopopts");
                continue;
            }
            _ => continue,
        };
        let kind = layout.fields.iter().find(|field| field.name == "ether_type");
        let kind = kind.and_then(|field| layout.read(&told.bytes[*at..], field));
        match layout.name {
            "Ethernet" => names.extend(["eth", "ethertype"]),
            "802.1Q" => names.extend([tag, "ethertype"]),
            "IPoIB" => names.push("ethertype"),
            "IPv4" => names.push("ip"),
            "IPv6" => names.push("ipv6"),
            "Fragment" => names.push("ipv6.fraghdr"),
            "ARP" => names.push("arp"),
            "UDP" => names.push("udp"),
            "TCP" => names.push("tcp"),
            _ if names.contains(&"infiniband") => {}
            _ => names.push("infiniband"),
        }
        tag = if kind == Some(0x88a8) { "ieee8021ad" } else { "vlan" };
    }
    names.join(":")
}

/// A field of the last header with this name.
fn last(told: &Dissection, header: &str, field: &str) -> Option<u128> {
    let (layout, at) = told.parts.iter().rev().find_map(|part| match part {
        Part::Header { layout, at } if layout.name == header => Some((layout, *at)),
        _ => None,
    })?;
    let field = layout.fields.iter().find(|other| other.name == field).unwrap();
    layout.read(&told.bytes[at..], field)
}

/// Parses a number as printed by tshark.
fn number(text: &str) -> Option<u128> {
    match text {
        "True" => Some(1),
        "False" => Some(0),
        text => match text.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    }
}

/// Compares a packet with tshark's dissection: its protocols, as far as they have headers here, its fields, and the
/// status of its checksums.
///
/// tshark reassembles fragments and reports the whole datagram with the last one to arrive.
#[track_caller]
fn assert_agrees(about: &str, told: &Dissection, row: &[String]) {
    let about = format!("{about}\n{}{row:?}", told.text());
    let mut columns = row.iter();
    let mut column = || columns.next().map_or("", String::as_str);
    let set = |field| told.field("IPv4", field).is_some_and(|value| value > 0);
    let is_fragment = set("more_fragments")
        || set("fragment_offset")
        || told.headers().any(|name| name == "Fragment");
    let (found, protocols) = (column(), protocols(told));
    let expected =
        if is_fragment { protocols.trim_end_matches(":udp") } else { protocols.as_str() };
    assert!(found.starts_with(expected), "{found} is not {expected}: {about}");
    let malformed = column();
    // tshark does not reassemble verbs messages, and takes the IP packet in the first part as truncated.
    let is_beginning = told.field("BTH", "opcode") == Some(RC_SEND_FIRST.into())
        && told.headers().any(|name| name == "IPoIB");
    assert!(malformed.is_empty() || is_beginning, "malformed: {about}");
    for (header, field, name) in FIELDS {
        let its = number(column());
        // With two tags, tshark's VLAN is the inner one.
        if let Some(mine) = last(told, header, field)
            && !(is_fragment && header == "UDP")
        {
            assert_eq!(its, Some(mine), "{name}: {about}");
        }
    }
    let sum = |wanted: &str| {
        told.parts.iter().find_map(|part| match part {
            Part::Sum { name, at, bytes, verdict } if *name == wanted => {
                Some((&told.bytes[*at..at + bytes], *verdict))
            }
            _ => None,
        })
    };
    for (wanted, name) in STATUS {
        let its = column();
        let expected = match sum(wanted) {
            _ if is_fragment && wanted == "UDP checksum" => match its {
                "" => "",
                _ => "1",
            },
            Some((_, Verdict::Good)) => "1",
            Some((_, Verdict::Bad { .. })) => "0",
            // Illegal over IPv6, except for tunnels (RFC 6935), whose ports tshark does not recognise here.
            Some((_, Verdict::Absent)) if told.headers().any(|name| name == "IPv6") => "4",
            Some((_, Verdict::Absent)) => "3",
            Some((_, Verdict::Unchecked(_))) | None => continue,
        };
        assert_eq!(its, expected, "{name}: {about}");
    }
    for (wanted, name) in CRCS {
        let its = column();
        // tshark does not recognise CNPs.
        let is_known = told.field("BTH", "opcode") != Some(CNP.into());
        if let Some((bytes, _)) = sum(wanted)
            && is_known
        {
            let mine = bytes.iter().fold(0, |sum, &byte| sum << 8 | u128::from(byte));
            assert_eq!(number(its), Some(mine), "{name}: {about}");
        }
    }
}

const LINKS: [&str; 17] = [
    "ethernet:10G",
    "ethernet:10G,vlan=1",
    "ethernet:10G,mtu=9000,vlan=2",
    "ipoib:4X-FDR",
    "ipoib:4X-FDR,grh",
    "ipoib:4X-FDR,ib-mtu=4096",
    "ipoib:4X-FDR,mode=connected",
    "ipoib:4X-FDR,mode=connected,grh",
    "ipoib:4X-FDR,mode=connected,mtu=65520",
    "ib:4X-HDR",
    "ib:4X-HDR,mtu=256,grh",
    "rocev1:100G",
    "rocev1:100G,vlan=1",
    "rocev1:100G,mtu=9000,vlan=2",
    "rocev2:100G",
    "rocev2:100G,vlan=1",
    "rocev2:100G,mtu=9000,vlan=2",
];

/// Every stack that a link may carry.
fn stacks() -> Vec<Stack> {
    let mut stacks = Vec::new();
    for family in [Family::V4, Family::V6] {
        stacks.push(Stack::Udp { family });
        for option_bytes in [0, TCP_TIMESTAMPS] {
            stacks.push(Stack::Tcp { family, option_bytes });
        }
        for immediate in [false, true] {
            for operation in [Operation::Send, Operation::Write, Operation::Read] {
                stacks.push(Stack::Rc { operation, immediate, family });
            }
            stacks.push(Stack::Ud { immediate, family });
        }
    }
    stacks
}

#[test]
fn tshark_reads_every_stack_that_is_built_over_every_kind_of_link() {
    let folder = TempDir::new().unwrap();
    for wanted in [LinkType::Ethernet, LinkType::Infiniband] {
        let mut packets = Vec::new();
        let mut combinations = 0;
        for text in LINKS {
            let link: Link = text.parse().unwrap();
            if build::link_type(link) != wanted {
                continue;
            }
            for stack in stacks() {
                for payload in [1, 100, 203, 3000] {
                    let Ok(built) = build(link, stack, payload) else { continue };
                    combinations += 1;
                    let about = format!("{link} {stack:?} {payload}");
                    packets.extend(built.into_iter().map(|packet| (about.clone(), packet.bytes)));
                }
            }
            if let Link::Ipoib(ipoib) = link {
                let messages = handshake(ipoib).into_iter();
                packets.extend(messages.map(|packet| (format!("{link} handshake"), packet.bytes)));
            }
        }
        assert!(combinations > 100, "{wanted:?}: {combinations}");
        let file = folder.path().join("built.pcap");
        let form = match wanted {
            LinkType::Infiniband => Form::Erf,
            other => Form::Plain(other),
        };
        let bytes = capture::write(form, packets.iter().map(|(_, packet)| &packet[..])).unwrap();
        fs::write(&file, bytes).unwrap();
        let Some(rows) = tshark(&file) else {
            return fabricmark_testkit::skip(
                "built packets before tshark",
                "tshark is not installed",
            );
        };
        assert_eq!(rows.len(), packets.len());
        for ((about, packet), row) in packets.iter().zip(&rows) {
            let told = dissect(wanted, packet);
            assert!(told.is_sound(), "{about}\n{}", told.text());
            assert_agrees(about, &told, row);
        }
    }
}

#[test]
fn what_others_wrote_is_told_as_tshark_tells_it() {
    for name in ["scapy.pcap", "loopback.pcapng"] {
        let file = Path::new(SAMPLES).join(name);
        let bytes = fs::read(&file).unwrap();
        let packets: Vec<Captured> = capture::read(&bytes).unwrap().map(Result::unwrap).collect();
        assert!(packets.len() >= 15);
        let Some(rows) = tshark(&file) else {
            return fabricmark_testkit::skip(
                "packets of others before tshark",
                "tshark is not installed",
            );
        };
        assert_eq!(rows.len(), packets.len());
        for (packet, row) in packets.iter().zip(&rows) {
            assert_agrees(name, &dissect(packet.link_type, packet.bytes), row);
        }
    }
}

fn fabricmark(folder: &Path, words: &[&str], input: Option<&[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fabricmark"))
        .arg("wire")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut standard_input = child.stdin.take().unwrap();
    standard_input.write_all(input.unwrap_or_default()).unwrap();
    drop(standard_input);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn expect(folder: &Path, words: &[&str], code: i32, fragments: &[&str]) -> String {
    let output = fabricmark(folder, words, None);
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
    for fragment in fragments {
        assert!(text.contains(fragment), "{words:?}: no {fragment:?} in {text}");
    }
    text.into_owned()
}

#[test]
fn packets_are_built_into_a_capture_and_shown_from_it() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let message =
        ["build", "--link", "ipoib:4X-FDR,mode=datagram", "--family", "6", "--payload", "100"];
    let shown =
        expect(here, &message, 0, &["BTH ", "DETH ", "IPoIB ", "IPv6 ", "UDP checksum", "good"]);
    for (link_type, number) in [("erf", 197), ("infiniband", 247)] {
        let words = [&message[..], &["--pcap", "out.pcap", "--link-type", link_type]].concat();
        expect(here, &words, 0, &["1 packet,", "out.pcap"]);
        let file = fs::read(here.join("out.pcap")).unwrap();
        assert_eq!(file[20..24], [number, 0, 0, 0]);
        let again = expect(here, &["show", "out.pcap"], 0, &["packet 1: InfiniBand, 186 bytes"]);
        assert!(shown.lines().skip(1).eq(again.lines().skip(1)), "{shown}{again}");
        let from_input = fabricmark(here, &["show", "-"], Some(&file));
        assert_eq!(String::from_utf8(from_input.stdout).unwrap(), again);
    }
    let json = expect(here, &["show", "out.pcap", "--json"], 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let parts = json["packets"][0]["parts"].as_array().unwrap();
    let bth = parts.iter().find(|part| part["name"] == "BTH").unwrap();
    let opcode = &bth["fields"][0];
    assert_eq!((&opcode["value"], &opcode["text"]), (&100.into(), &"0x64 (UD SEND Only)".into()));
    let icrc = parts.iter().find(|part| part["name"] == "ICRC").unwrap();
    assert_eq!(icrc["verdict"], "good");
}

#[test]
fn figures_are_drawn_by_name() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    expect(
        here,
        &["diagram", "bth"],
        0,
        &["|   Reserved    |                Destination QP                 |"],
    );
    expect(here, &["diagram", "connected"], 0, &["| LRH | BTH | 4-Octet Header |"]);
    expect(here, &["diagram", "datagram", "--grh"], 0, &["| LRH | GRH | BTH | DETH |"]);
}

#[test]
fn wrong_input_is_told_with_a_remedy() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    fs::write(here.join("picture.gif"), b"GIF89a").unwrap();
    let packets = [&[0u8; 60][..], &[1; 60]];
    let mut broken = capture::write(Form::Plain(LinkType::Ethernet), packets).unwrap();
    broken.truncate(broken.len() - 1);
    fs::write(here.join("broken.pcap"), broken).unwrap();
    for (words, fragments) in [
        (&["show", "none.pcap"][..], &["cannot read none.pcap"][..]),
        (&["show", "picture.gif"], &["picture.gif: this is not a capture file"]),
        (&["show", "broken.pcap"], &["packet 1: Ethernet", "packet 2 needs 60 bytes, 59 are left"]),
        (&["diagram", "token-ring"], &["possible values", "lrh"]),
        (&["diagram", "lrh", "--grh"], &["--grh is supported only with connected and datagram"]),
        (&["build"], &["--link"]),
        (&["build", "--link", "ib:4X-FDR"], &["carries no IP"]),
        (
            &["build", "--link", "ethernet:1G", "--transport", "rc"],
            &["rc and ud are not supported"],
        ),
        (
            &["build", "--link", "ethernet:1G", "--timestamps"],
            &["--timestamps is supported only with tcp"],
        ),
        (
            &["build", "--link", "ethernet:1G", "--immediate"],
            &["--immediate is supported only with rc and ud"],
        ),
        (
            &["build", "--link", "ethernet:1G", "--operation", "read"],
            &["--operation is supported only with rc"],
        ),
        (&["build", "--link", "ipoib:4X-FDR", "--handshake"], &["use ipoib with mode=connected"]),
        (&["build", "--link", "ethernet:1G", "--payload", "1GiB"], &["use at most 16777216"]),
    ] {
        expect(here, words, 64, fragments);
    }
}
