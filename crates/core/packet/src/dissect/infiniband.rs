//! Dissects InfiniBand, RoCEv1 and RoCEv2.

use fabricmark_header::checksum::{icrc, icrc_roce_v1, icrc_roce_v2, vcrc};
use fabricmark_header::cm::{self, Mad, MadView};
use fabricmark_header::ethernet::ether_type;
use fabricmark_header::infiniband::{
    Bth, BthView, Grh, GrhView, LNH_BTH, LNH_GRH, Lrh, LrhView, NEXT_HEADER_BTH, opcode,
};
use fabricmark_header::ipoib::{IpoibHeader, IpoibHeaderView};

use super::internet::Extent;
use super::{Trouble, Verdict, Walk};

/// Length of the invariant CRC in bytes (IBTA vol. 1, 7.8.1).
const ICRC: usize = 4;
/// Length of the variant CRC in bytes (IBTA vol. 1, 7.8.2).
const VCRC: usize = 2;

/// Encapsulation of a BTH.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    /// InfiniBand fabric, which may carry IPoIB.
    Native,
    /// RoCE: Ethernet or UDP.
    Roce,
}

impl<'a> Walk<'a> {
    pub(super) fn infiniband(&mut self) {
        let there = self.bytes.len();
        let lrh = self.read(Lrh::LAYOUT, LrhView::of, 0, there);
        let Some((lrh, mut at)) = lrh else { return };
        // The length field excludes the variant CRC (IBTA vol. 1, 7.7.8).
        let says = 4 * usize::from(lrh.packet_words());
        let is_whole = (Lrh::BYTES..=there).contains(&says);
        if !is_whole {
            self.trouble(4, Trouble::Length { header: "LRH", says, there });
        }
        let end = if is_whole { says } else { there };
        let mut next = lrh.next_header();
        if next == LNH_GRH {
            let Some((grh, after)) = self.global(at, end) else { return };
            next = if grh.next_header() == NEXT_HEADER_BTH { LNH_BTH } else { 0 };
            at = after;
        }
        if next == LNH_BTH {
            let sum = |end| icrc(self.bytes.get(..end)?);
            let right = end.checked_sub(ICRC).and_then(sum).filter(|_| is_whole);
            self.base(at, end, Under::Native, right, Extent::Whole);
        } else {
            self.data("raw packet", at, end);
        }
        if is_whole {
            let stored = self.rest(end, there).first_chunk::<VCRC>().copied();
            let verdict = Verdict::of(stored, Some(vcrc(self.rest(0, end))));
            let bytes = stored.map_or(0, |stored| stored.len());
            self.sum("VCRC", end, bytes, verdict);
            self.data("trailer", end + bytes, there);
        }
    }

    /// Dissects a GRH and returns its end.
    fn global(&mut self, at: usize, end: usize) -> Option<(GrhView<'a>, usize)> {
        let (grh, after) = self.read(Grh::LAYOUT, GrhView::of, at, end)?;
        let (says, there) = (usize::from(grh.payload_bytes()), end - after);
        // Padding may follow on Ethernet, so fewer bytes are no error.
        if says > there {
            self.trouble(at + 4, Trouble::Length { header: "GRH", says, there });
        }
        Some((grh, after))
    }

    pub(super) fn roce_v1(&mut self, at: usize, end: usize) {
        let Some((grh, after)) = self.global(at, end) else { return };
        let says = usize::from(grh.payload_bytes());
        let packet_end = (after + says).min(end);
        if grh.next_header() == NEXT_HEADER_BTH {
            let sum = |end| icrc_roce_v1(self.bytes.get(at..end)?);
            let right = packet_end.checked_sub(ICRC).and_then(sum);
            let right = right.filter(|_| after + says == packet_end);
            self.base(after, packet_end, Under::Roce, right, Extent::Whole);
        } else {
            self.data("payload", after, packet_end);
        }
        self.data("trailer", packet_end, end);
    }

    pub(super) fn roce_v2(&mut self, ip_at: usize, at: usize, end: usize, extent: Extent) {
        let sum = |end| icrc_roce_v2(self.bytes.get(ip_at..end)?);
        let right = end.checked_sub(ICRC).and_then(sum).filter(|_| extent == Extent::Whole);
        self.base(at, end, Under::Roce, right, extent);
    }

    /// Dissects the packet from the BTH through the invariant CRC; `right` is the correct CRC.
    fn base(
        &mut self,
        at: usize,
        end: usize,
        under: Under,
        right: Option<[u8; 4]>,
        extent: Extent,
    ) {
        let bth = self.read(Bth::LAYOUT, BthView::of, at, end);
        let Some((bth, mut after)) = bth else { return };
        let there = end - after;
        let Some(body_end) = end.checked_sub(ICRC).filter(|&body_end| body_end >= after) else {
            self.trouble(after, Trouble::CutShort { header: "ICRC", needs: ICRC, there });
            return self.data("data", after, end);
        };
        let extensions = opcode::extensions(bth.opcode());
        if extensions.is_none() {
            self.trouble(at, Trouble::Opcode(bth.opcode()));
        }
        for layout in extensions.unwrap_or_default() {
            let Some(next) = self.header(layout, after, body_end) else {
                return self.invariant(body_end, right, extent);
            };
            after = next;
        }
        let pad = usize::from(bth.pad());
        let there = body_end - after;
        let payload_end = body_end.saturating_sub(pad).max(after);
        if pad > there {
            self.trouble(at + 1, Trouble::Length { header: "BTH", says: pad, there });
        }
        match bth.opcode() {
            opcode::UD_SEND_ONLY | opcode::UD_SEND_ONLY_IMMEDIATE
                if bth.destination_qp() <= cm::QUEUE_PAIR =>
            {
                self.management(after, payload_end);
            }
            code if under == Under::Native && self.is_ipoib(code, after, payload_end) => {
                self.ipoib(code, after, payload_end);
            }
            _ => self.data("payload", after, payload_end),
        }
        self.data("padding", payload_end, body_end);
        self.invariant(body_end, right, extent);
    }

    fn invariant(&mut self, at: usize, right: Option<[u8; 4]>, extent: Extent) {
        let verdict = match extent {
            Extent::Beginning(why) => Verdict::Unchecked(why),
            Extent::Whole => {
                let stored = self.rest(at, at + ICRC).first_chunk::<ICRC>().copied();
                Verdict::of(stored, right)
            }
        };
        self.sum("ICRC", at, ICRC, verdict);
    }

    /// Guesses whether an IPoIB message begins here. No field says so: it depends on the queue pair (RFC 4391, 6).
    fn is_ipoib(&self, code: u8, at: usize, end: usize) -> bool {
        let begins = matches!(
            code,
            opcode::UD_SEND_ONLY
                | opcode::RC_SEND_FIRST
                | opcode::RC_SEND_ONLY
                | opcode::UC_SEND_FIRST
                | opcode::UC_SEND_ONLY
        );
        begins
            && IpoibHeaderView::of(self.rest(at, end)).is_some_and(|(header, _)| {
                let kind = header.ether_type();
                header.reserved_16() == 0
                    && [ether_type::IPV4, ether_type::IPV6, ether_type::ARP, ether_type::RARP]
                        .contains(&kind)
            })
    }

    fn ipoib(&mut self, code: u8, at: usize, end: usize) {
        let header = self.read(IpoibHeader::LAYOUT, IpoibHeaderView::of, at, end);
        let Some((header, after)) = header else { return };
        let extent = match code {
            opcode::RC_SEND_FIRST | opcode::UC_SEND_FIRST => {
                Extent::Beginning("the message continues in later packets")
            }
            _ => Extent::Whole,
        };
        self.network(header.ether_type(), after, end, extent);
    }

    fn management(&mut self, at: usize, end: usize) {
        let Some((mad, after)) = self.read(Mad::LAYOUT, MadView::of, at, end) else { return };
        let message = cm::message(mad.attribute()).filter(|_| mad.class() == cm::CLASS);
        let Some(layout) = message else { return self.data("management data", after, end) };
        if let Some(after) = self.header(layout, after, end) {
            self.data("private data", after, end);
        }
    }
}
