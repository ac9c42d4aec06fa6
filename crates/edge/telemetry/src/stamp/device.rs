//! Whether a network device takes timestamps itself: what `ethtool -T` and `hwstamp_ctl` report.

use super::flag;
use super::sys::{self, DeviceStamps};

/// Transmit timestamps of all packets that request one (HWTSTAMP_TX_ON, linux/net_tstamp.h).
const TX_ON: u32 = 1;

/// Receive timestamps of all packets (HWTSTAMP_FILTER_ALL, linux/net_tstamp.h).
const FILTER_ALL: u32 = 1;

/// Checks that a device takes timestamps of all packets itself.
///
/// # Errors
///
/// What the device lacks, with the remedy.
pub fn check_hardware(device: &str) -> Result<(), String> {
    let stamps = sys::device_stamps(device).map_err(|error| {
        format!(
            "cannot read the timestamping capabilities of {device} ({error}): use \
             timestamps=software"
        )
    })?;
    judge(device, stamps)
}

fn judge(device: &str, stamps: DeviceStamps) -> Result<(), String> {
    const NEEDED: u32 = flag::TX_HARDWARE | flag::RX_HARDWARE | flag::RAW_HARDWARE;
    if stamps.flags & NEEDED != NEEDED {
        return Err(format!(
            "{device} has no hardware timestamps: use a device with hardware-transmit and \
             hardware-receive in `ethtool -T`, or timestamps=software"
        ));
    }
    match (stamps.tx_type, stamps.rx_filter) {
        (Some(TX_ON), Some(FILTER_ALL)) => Ok(()),
        _ => Err(format!(
            "the hardware timestamps of {device} are not enabled for all packets: run `hwstamp_ctl \
             -i {device} -t 1 -r 1` as root (package linuxptp)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_hardware_to_stamp_packets() {
        let Err(said) = check_hardware("lo") else { panic!("lo has a clock") };
        assert!(said.starts_with("lo has no hardware timestamps: "), "{said}");
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let Err(said) = check_hardware("fm-none") else { panic!("it is there") };
        assert!(said.starts_with("cannot read the timestamping capabilities of fm-none"), "{said}");
        assert!(check_hardware("a-name-longer-than-15").is_err());
    }

    #[test]
    fn a_device_has_to_be_able_and_to_be_switched_on_both_ways() {
        let flags = flag::TX_HARDWARE | flag::RX_HARDWARE | flag::RAW_HARDWARE;
        let device = |tx_type, rx_filter| DeviceStamps { flags, tx_type, rx_filter };
        assert_eq!(judge("eth0", device(Some(1), Some(1))), Ok(()));
        for off in [device(Some(0), Some(1)), device(Some(1), Some(0)), device(None, None)] {
            let said = judge("eth0", off).unwrap_err();
            assert!(said.contains("`hwstamp_ctl -i eth0 -t 1 -r 1`"), "{said}");
        }
        let only_sending = DeviceStamps { flags: flags & !flag::RX_HARDWARE, ..device(None, None) };
        assert!(judge("eth0", only_sending).unwrap_err().contains("`ethtool -T`"));
    }
}
