//! InfiniBand headers (IBTA, InfiniBand Architecture Specification, volume 1).

use super::Format::{Decimal, Flag, Hex};
use super::header;

header! {
    /// Local route header: the data link layer (P1, figure 3).
    Lrh, LrhView: 8, "LRH", "Local Route Header", "IBTA vol. 1, 7.7";
    /// Virtual lane, 15 for management.
    vl: u8 = 0..4, "VL", Decimal, "7.7.1";
    /// Version of the link layer, 0.
    link_version: u8 = 4..8, "LVer", Decimal, "7.7.2";
    /// Service level.
    service_level: u8 = 8..12, "SL", Decimal, "7.7.3";
    /// Reserved, 0.
    reserved_12: u8 = 12..14, "Reserved", Hex, "7.7.4";
    /// Link next header: 2 (BTH) within a subnet, 3 (GRH) between subnets; 0 raw, 1 IPv6 raw.
    next_header: u8 = 14..16, "LNH", Decimal, "7.7.5";
    /// Destination local identifier.
    dlid: u16 = 16..32, "DLID", Hex, "7.7.6";
    /// Reserved, 0.
    reserved_32: u8 = 32..37, "Reserved", Hex, "7.7.7";
    /// Length in words of 4 bytes, from this header to the invariant CRC, both included.
    packet_words: u16 = 37..48, "Packet Length", Decimal, "7.7.8";
    /// Source local identifier.
    slid: u16 = 48..64, "SLID", Hex, "7.7.9";
}

header! {
    /// Base transport header (P1, figure 4).
    Bth, BthView: 12, "BTH", "Base Transport Header", "IBTA vol. 1, 9.2";
    /// Transport service and operation.
    opcode: u8 = 0..8, "OpCode", Hex, "9.2.1";
    /// Solicited event: the receiver raises one.
    solicited: bool = 8..9, "SE", Flag, "9.2.3";
    /// State of migration to an alternate path.
    migrated: bool = 9..10, "M", Flag, "9.2.4";
    /// Bytes of padding behind the payload, 0 to 3.
    pad: u8 = 10..12, "Pad", Decimal, "9.2.5";
    /// Version of the transport header, 0.
    transport_version: u8 = 12..16, "TVer", Decimal, "9.2.6";
    /// Partition key.
    pkey: u16 = 16..32, "P_Key", Hex, "9.2.7";
    /// Masked out of the invariant CRC; RoCEv2 has FECN and BECN in its first two bits.
    reserved_32: u8 = 32..40, "Reserved", Hex, "9.2.8";
    /// Destination queue pair.
    destination_qp: u32 = 40..64, "Destination QP", Hex, "9.2.9";
    /// The responder is asked to acknowledge.
    acknowledge: bool = 64..65, "A", Flag, "9.2.10";
    /// Reserved, 0; within the invariant CRC.
    reserved_65: u8 = 65..72, "Reserved", Hex, "9.2.10";
    /// Packet sequence number.
    psn: u32 = 72..96, "PSN", Decimal, "9.2.11";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::laws::round_trip;

    round_trip!(an_lrh_survives_the_wire, Lrh, LrhView);
    round_trip!(a_bth_survives_the_wire, Bth, BthView);

    #[test]
    fn a_sequence_number_beyond_24_bits_is_told() {
        let (view, _) = BthView::of(&[0; 12]).unwrap();
        let bth = Bth { psn: 1 << 24, ..view.value() };
        let told = bth.check().unwrap_err().to_string();
        assert_eq!(told, "BTH: PSN is 16777216, more than its 24 bits hold");
    }
}
