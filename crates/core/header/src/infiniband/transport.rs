//! Transport layer headers: the BTH and the extended transport headers.

use super::opcode;
use crate::Format::{Decimal, Flag, Hex, Named};
use crate::{Names, header};

header! {
    /// Base transport header (P1, figure 4).
    Bth, BthView: 12, "BTH", "Base Transport Header", "IBTA vol. 1, 9.2";
    /// Transport service and operation.
    opcode: u8 = 0..8, "OpCode", Named(opcode::NAMES), "9.2.1";
    /// Solicited event: the receiver raises a completion event.
    solicited: bool = 8..9, "SE", Flag, "9.2.3";
    /// Migration request (MigReq): 1 in migration state Migrated, the initial state.
    migrated: bool = 9..10, "M", Flag, "9.2.4";
    /// Padding bytes after the payload, 0 to 3.
    pad: u8 = 10..12, "Pad", Decimal, "9.2.5";
    /// Transport header version, 0.
    transport_version: u8 = 12..16, "TVer", Decimal, "9.2.6";
    pkey: u16 = 16..32, "P_Key", Hex, "9.2.7";
    /// Masked with ones in the invariant CRC; its first two bits are FECN and BECN in RoCEv2.
    reserved_32: u8 = 32..40, "Reserved", Hex, "9.2.8";
    destination_qp: u32 = 40..64, "Destination QP", Hex, "9.2.9";
    /// The sender requests an acknowledgement from the responder.
    acknowledge: bool = 64..65, "A", Flag, "9.2.10";
    /// Reserved, 0; covered by the invariant CRC.
    reserved_65: u8 = 65..72, "Reserved", Hex, "9.2.10";
    /// Packet sequence number.
    psn: u32 = 72..96, "PSN", Decimal, "9.2.11";
}

header! {
    /// Datagram extended transport header, present in every UD packet (P1, figure 7).
    Deth, DethView: 8, "DETH", "Datagram Extended Transport Header", "IBTA vol. 1, 9.3.2";
    /// Queue key: the receiver drops the packet if it differs from that of the queue pair.
    qkey: u32 = 0..32, "Q_Key", Hex, "9.3.2.1";
    reserved_32: u8 = 32..40, "Reserved", Hex, "9.3.2";
    /// Source queue pair, the destination of replies.
    source_qp: u32 = 40..64, "Source QP", Hex, "9.3.2.2";
}

header! {
    /// RDMA extended transport header: the remote memory to write or read.
    Reth, RethView: 16, "RETH", "RDMA Extended Transport Header", "IBTA vol. 1, 9.3.3";
    /// Virtual address at the responder.
    virtual_address: u64 = 0..64, "Virtual Address", Hex, "9.3.3.1";
    /// Remote key that authorizes the access.
    rkey: u32 = 64..96, "R_Key", Hex, "9.3.3.2";
    /// Length in bytes of the whole message.
    dma_bytes: u32 = 96..128, "DMA Length", Decimal, "9.3.3.3";
}

header! {
    /// Atomic extended transport header: an atomic operation on eight bytes of remote memory.
    AtomicEth, AtomicEthView: 28,
    "AtomicETH", "Atomic Extended Transport Header", "IBTA vol. 1, 9.3.4";
    /// Virtual address at the responder, a multiple of 8.
    virtual_address: u64 = 0..64, "Virtual Address", Hex, "9.3.4.1";
    /// Remote key that authorizes the access.
    rkey: u32 = 64..96, "R_Key", Hex, "9.3.4.2";
    /// Value to add, or to store if the comparison succeeds.
    swap_or_add: u64 = 96..160, "Swap (or Add) Data", Hex, "9.3.4.3";
    /// Value to compare with; unused by FETCH ADD.
    compare: u64 = 160..224, "Compare Data", Hex, "9.3.4.4";
}

header! {
    /// Acknowledge extended transport header; its first byte is the syndrome (IBTA vol. 1, 9.7.5).
    Aeth, AethView: 4, "AETH", "ACK Extended Transport Header", "IBTA vol. 1, 9.3.5";
    reserved_0: bool = 0..1, "Reserved", Flag, "9.3.5.1";
    /// Syndrome bits 6:5: ACK, RNR NAK (receiver not ready) or NAK.
    kind: u8 = 1..3, "Syndrome", Named(KIND), "9.3.5.1";
    /// Syndrome bits 4:0: the credit count of an ACK, the timer of an RNR NAK, or the error code of a NAK.
    code: u8 = 3..8, "Syndrome Value", Decimal, "9.3.5.1";
    /// Message sequence number: number of messages completed by the responder.
    msn: u32 = 8..32, "MSN", Decimal, "9.3.5.2";
}

const KIND: Names = &[(0, "ACK"), (1, "RNR NAK"), (3, "NAK")];

header! {
    /// Atomic acknowledge extended transport header.
    AtomicAckEth, AtomicAckEthView: 8,
    "AtomicAckETH", "Atomic ACK Extended Transport Header", "IBTA vol. 1, 9.3";
    /// Value of the eight bytes before the operation.
    original: u64 = 0..64, "Original Remote Data", Hex, "9.3";
}

header! {
    /// Immediate data, which the receiver gets in its completion.
    ImmDt, ImmDtView: 4, "ImmDt", "Immediate Extended Transport Header", "IBTA vol. 1, 9.3";
    /// Application-defined value.
    immediate: u32 = 0..32, "Immediate Data", Hex, "9.3";
}

header! {
    /// Invalidate extended transport header.
    Ieth, IethView: 4, "IETH", "Invalidate Extended Transport Header", "IBTA vol. 1, 9.3";
    /// Remote key that the receiver invalidates.
    rkey: u32 = 0..32, "R_Key", Hex, "9.3";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::round_trip;

    round_trip!(a_bth_survives_the_wire, Bth, BthView);
    round_trip!(a_deth_survives_the_wire, Deth, DethView);
    round_trip!(a_reth_survives_the_wire, Reth, RethView);
    round_trip!(an_atomiceth_survives_the_wire, AtomicEth, AtomicEthView);
    round_trip!(an_aeth_survives_the_wire, Aeth, AethView);
    round_trip!(an_atomicacketh_survives_the_wire, AtomicAckEth, AtomicAckEthView);
    round_trip!(an_immdt_survives_the_wire, ImmDt, ImmDtView);
    round_trip!(an_ieth_survives_the_wire, Ieth, IethView);

    #[test]
    fn extended_headers_are_what_the_wire_carries() {
        // A datagram from QP1 (general services).
        let deth = Deth { qkey: 0x8001_0000, reserved_32: 0, source_qp: 1 };
        assert_eq!(deth.to_bytes(), [0x80, 0x01, 0, 0, 0, 0, 0, 1]);
        // An acknowledgement with unlimited credits after 5 messages.
        let (aeth, _) = AethView::of(&[0x1f, 0, 0, 5]).unwrap();
        assert_eq!((aeth.kind(), aeth.code(), aeth.msn()), (0, 31, 5));
        // Compare with 1, swap for 2, at address 0x1000.
        let atomic = AtomicEth { virtual_address: 0x1000, rkey: 7, swap_or_add: 2, compare: 1 };
        let bytes =
            [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(atomic.to_bytes(), bytes);
        assert_eq!(ImmDt { immediate: 0x1234_5678 }.to_bytes(), [0x12, 0x34, 0x56, 0x78]);
    }
}
