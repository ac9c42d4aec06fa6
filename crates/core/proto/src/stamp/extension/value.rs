//! What the extensions hold that are known here.

/// How a reflector got its times. Sources are 1 NTP, 2 PTP, 3 SSU/BITS, 4 a satellite or LORAN-C, 5 a
/// clock that nobody sets; methods 1 hardware, 2 local software, 3 a clock elsewhere (RFC 8972, tables 7
/// and 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampInformation {
    /// What sets the clock of the arrival.
    pub source_in: u8,
    /// What stamped the arrival.
    pub method_in: u8,
    /// What sets the clock of the departure.
    pub source_out: u8,
    /// What stamped the departure.
    pub method_out: u8,
}

impl TimestampInformation {
    /// Of times that software took from a clock of this machine. The kernel says whether its clock
    /// follows another, not how; its interface is that of NTP, and so is the source named here.
    pub(in super::super) fn of_software(is_synchronised: bool) -> Self {
        let source = if is_synchronised { 1 } else { 5 };
        Self { source_in: source, method_in: 2, source_out: source, method_out: 2 }
    }

    /// Behind the four octets there may be more, of which none are defined.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let &[source_in, method_in, source_out, method_out] = value.first_chunk()?;
        Some(Self { source_in, method_in, source_out, method_out })
    }

    pub(super) fn emit(self) -> [u8; 4] {
        [self.source_in, self.method_in, self.source_out, self.method_out]
    }
}

/// What a packet's IP header said about its class, at the reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP that the answer shall have; 6 bits.
    pub wanted_dscp: u8,
    /// DSCP with which the packet arrived; 6 bits.
    pub dscp: u8,
    /// ECN with which the packet arrived; 2 bits.
    pub ecn: u8,
    /// Whether the reflector refused the DSCP wanted and answered with the one that arrived.
    pub is_refused: bool,
}

impl ClassOfService {
    /// `DSCP1 (6) | DSCP2 (6) | ECN (2) | RP (2) | reserved (16)`.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let bits = u32::from_be_bytes(value.try_into().ok()?);
        Some(Self {
            wanted_dscp: (bits >> 26) as u8,
            dscp: (bits >> 20) as u8 & 0x3f,
            ecn: (bits >> 18) as u8 & 3,
            is_refused: bits >> 16 & 3 != 0,
        })
    }

    pub(super) fn emit(self) -> [u8; 4] {
        let bits = u32::from(self.wanted_dscp & 0x3f) << 26
            | u32::from(self.dscp & 0x3f) << 20
            | u32::from(self.ecn & 3) << 18
            | u32::from(self.is_refused) << 16;
        bits.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_class_survives_its_bits(bits: u32) {
            let class = ClassOfService::parse(&bits.to_be_bytes()).unwrap();
            prop_assert_eq!(ClassOfService::parse(&class.emit()), Some(class));
        }
    }
}
