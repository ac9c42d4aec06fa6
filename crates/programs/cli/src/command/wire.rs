//! `fabricmark wire`: builds, dissects and draws packets.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use fabricmark_packet::build::{self, Host, Packet};
use fabricmark_packet::capture::{self, CaptureError, Captured, Form, LinkType};
use fabricmark_packet::diagram;
use fabricmark_packet::dissect::{Dissection, Part, Verdict, dissect};
use fabricmark_wire::{IpoibMode, Link};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::options::wire::{Build, Diagram, InfinibandForm, Show, Wire};
use crate::output::{pretty, print, print_bytes};

/// Maximum size of a capture file in bytes: it is read into memory.
const CAPTURE_BYTES_MAX: u64 = 1 << 30;

pub fn wire(options: &Wire) -> Result<(), Failure> {
    match options {
        Wire::Build(build) => built(build),
        Wire::Show(show) => shown(show),
        Wire::Diagram(diagram) => drawn(diagram),
    }
}

fn built(options: &Build) -> Result<(), Failure> {
    let packets = packets(options)?;
    let link_type = build::link_type(options.link);
    if let Some(file) = &options.pcap {
        let form = match (link_type, options.link_type) {
            (LinkType::Infiniband, InfinibandForm::Erf) => Form::Erf,
            _ => Form::Plain(link_type),
        };
        let bytes = capture::write(form, packets.iter().map(|packet| &packet.bytes[..]))?;
        write(file, &bytes)?;
        let (count, total) = (packets.len(), bytes.len());
        let plural = if count == 1 { "" } else { "s" };
        note!("{count} packet{plural}, a capture of {total} bytes: {}", file.display());
        return Ok(());
    }
    let told = packets.iter().map(|packet| {
        let from = match packet.from {
            Host::First => "first",
            Host::Second => "second",
        };
        (dissect(link_type, &packet.bytes), json!({ "from": from }))
    });
    if options.json {
        print(&as_json(told, None))?;
    } else {
        for (index, (dissection, about)) in told.enumerate() {
            let from = about["from"].as_str().unwrap_or_default();
            print(&as_text(index, &dissection, &format!("from the {from} host")))?;
        }
    }
    Ok(())
}

/// The packets to build. Options of another transport are an error.
fn packets(options: &Build) -> Result<Vec<Packet>, Failure> {
    let link = options.link;
    if options.handshake {
        return match link {
            Link::Ipoib(ipoib) if ipoib.mode == IpoibMode::Connected => {
                link.check().map_err(Failure::input)?;
                Ok(build::handshake(ipoib))
            }
            _ => Err(Failure::input(format!(
                "{link} has no connection setup: use ipoib with mode=connected"
            ))),
        };
    }
    let stack = options.stack.over(options.family)?;
    Ok(build::build(link, stack, options.payload.0)?)
}

fn shown(options: &Show) -> Result<(), Failure> {
    let file = read(&options.file)?;
    let name = options.file.display();
    let wrong = |error: CaptureError| Failure::input(format!("{name}: {error}"));
    let packets = capture::read(&file).map_err(wrong)?;
    // Packets before a broken one are still printed.
    let mut broken = None;
    let whole = packets.map_while(|packet| packet.map_err(|error| broken = Some(error)).ok());
    if options.json {
        let told: Vec<_> = whole.map(|packet| (taken_apart(&packet), about(&packet))).collect();
        let error = broken.map(|error| error.to_string());
        print(&as_json(told.into_iter(), error.as_deref()))?;
    } else {
        for (index, packet) in whole.enumerate() {
            let mut notes = Vec::new();
            if let Some(time_ns) = packet.time_ns {
                let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
                notes.push(format!("at {seconds}.{fraction:09} s"));
            }
            if packet.captured_from_bytes as usize > packet.bytes.len() {
                notes.push(format!("cut from {} bytes", packet.captured_from_bytes));
            }
            print(&as_text(index, &taken_apart(&packet), &notes.join(", ")))?;
        }
    }
    broken.map_or(Ok(()), |error| Err(wrong(error)))
}

fn taken_apart<'a>(packet: &Captured<'a>) -> Dissection<'a> {
    dissect(packet.link_type, packet.bytes)
}

fn about(packet: &Captured) -> Value {
    json!({ "time_ns": packet.time_ns, "captured_from_bytes": packet.captured_from_bytes })
}

fn drawn(options: &Diagram) -> Result<(), Failure> {
    let named = |name: &str| name == options.name;
    let packet = diagram::PACKETS.iter().find(|(name, _)| named(name));
    let header = diagram::HEADERS.iter().find(|(name, _)| named(name));
    let text = match (packet, header) {
        (Some((_, packet)), _) => diagram::ipoib(*packet, options.grh),
        (_, Some(_)) if options.grh => {
            return Err(Failure::input(
                "--grh is supported only with connected and datagram: leave it out",
            ));
        }
        (_, Some((_, layout))) => diagram::header(layout),
        (None, None) => {
            return Err(Failure::input(format!("there is no diagram of {}", options.name)));
        }
    };
    print(&text)
}

/// Formats a packet as text.
fn as_text(index: usize, told: &Dissection, note: &str) -> String {
    let comma = if note.is_empty() { "" } else { ", " };
    let (number, link) = (index + 1, told.link_type.name());
    let gap = if index > 0 { "\n" } else { "" };
    format!(
        "{gap}packet {number}: {link}, {} bytes{comma}{note}\n{}",
        told.bytes.len(),
        told.text()
    )
}

/// Formats packets as JSON, with metadata and the error that ended the capture, if any.
fn as_json<'a>(
    packets: impl Iterator<Item = (Dissection<'a>, Value)>,
    error: Option<&str>,
) -> String {
    let packets = packets.enumerate().map(|(index, (told, mut about))| {
        about["packet"] = json!(index + 1);
        about["link_type"] = json!(told.link_type.number());
        about["link"] = json!(told.link_type.name());
        about["bytes"] = json!(told.bytes.len());
        about["headers"] = json!(told.headers().collect::<Vec<_>>());
        about["parts"] = told.parts.iter().map(|part| part_json(&told, part)).collect();
        about
    });
    pretty(&json!({ "packets": packets.collect::<Vec<_>>(), "error": error }))
}

fn part_json(told: &Dissection, part: &Part) -> Value {
    let hex = |at: usize, bytes: usize| {
        let bytes = told.bytes.get(at..at + bytes).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    match part {
        Part::Header { layout, at } => {
            let bytes = told.bytes.get(*at..).unwrap_or_default();
            let fields = layout.fields.iter().map(|field| {
                let value = layout.read(bytes, field).unwrap_or_default();
                json!({
                    "name": field.name,
                    "title": field.title,
                    "text": field.text(value),
                    // JSON numbers hold 64 bits here; 128-bit values are only in `text`.
                    "value": u64::try_from(value).ok(),
                    "at_bit": field.at,
                    "bits": field.bits,
                    "clause": field.clause,
                })
            });
            json!({
                "part": "header",
                "name": layout.name,
                "title": layout.title,
                "source": layout.source,
                "at_byte": at,
                "bytes": layout.bytes,
                "fields": fields.collect::<Vec<_>>(),
            })
        }
        Part::Option { name, text, at, bytes } => {
            json!({ "part": "option", "name": name, "text": text, "at_byte": at, "bytes": bytes })
        }
        Part::Data { name, at, bytes } => {
            let hex = hex(*at, *bytes);
            json!({ "part": "data", "name": name, "at_byte": at, "bytes": bytes, "hex": hex })
        }
        Part::Sum { name, at, bytes, verdict } => {
            let (word, right, why) = match verdict {
                Verdict::Good => ("good", None, None),
                Verdict::Bad { right } => {
                    ("bad", Some(format!("{right:0digits$x}", digits = 2 * bytes)), None)
                }
                Verdict::Absent => ("absent", None, None),
                Verdict::Unchecked(why) => ("unchecked", None, Some(why)),
            };
            json!({
                "part": "checksum",
                "name": name,
                "at_byte": at,
                "bytes": bytes,
                "hex": hex(*at, *bytes),
                "verdict": word,
                "right_hex": right,
                "why": why,
            })
        }
        Part::Trouble { at, trouble } => {
            json!({ "part": "trouble", "text": trouble.to_string(), "at_byte": at })
        }
    }
}

/// Reads a whole capture file; `-` is standard input.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(File::open(file).map_err(Failure::unread(file))?),
    };
    let read = source.take(CAPTURE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(Failure::unread(file))?;
    if bytes.len() as u64 > CAPTURE_BYTES_MAX {
        let name = file.display();
        return Err(Failure::input(format!(
            "{name} is longer than {} MiB: use a smaller file",
            CAPTURE_BYTES_MAX >> 20
        )));
    }
    Ok(bytes)
}

/// Writes a capture to a file; `-` is standard output.
fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    match file.to_str() {
        Some("-") => print_bytes(bytes),
        _ => fs::write(file, bytes).map_err(Failure::output(file.display())),
    }
}
