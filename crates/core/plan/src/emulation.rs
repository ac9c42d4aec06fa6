//! The emulated link of a point: its options, BDP, TCP window and ramp.

use fabricmark_link::{HostBus, LinkOptions};
use fabricmark_units::{Bytes, Nanos};
use fabricmark_wire::Link;

use crate::choice::Offload;
use crate::factor::{Factor, Point, Where};
use crate::problem::{Contradiction, refuse};
use crate::window::Window;

/// Initial TCP window in bytes: ten segments (RFC 6928) of 1460 bytes, the MSS over IPv4 at Ethernet's default MTU.
const FIRST_FLIGHT_BYTES: u64 = 10 * 1460;

/// RTTs allowed to reach the full window after slow start. CUBIC leaves slow start early if ACKs arrive in trains
/// or with increasing delay (HyStart): in each of four runs at a quarter of 14 Gbit/s x 400 ms. It was steady 5 to
/// 8 RTTs after the doublings (Linux 6.18).
const FOUND: u64 = 8;

impl Point {
    /// Options of the emulated link, equal in both directions; `None` if the link is not emulated. A lab emulates a
    /// link if the point has `rtt`, `emulate` or `bus`, or if the link is IPoIB.
    pub fn link_options(&self) -> Option<LinkOptions> {
        let is_ipoib = matches!(self.link, Link::Ipoib(_));
        let is_asked = self.rtt.is_some() || self.emulate.is_some() || self.bus.is_some();
        if !is_asked && !is_ipoib {
            return None;
        }
        let mut options = LinkOptions::default();
        // The values were validated when the point was created.
        let _ = match self.link {
            Link::Veth { mtu } => options.set("mtu", &mtu.to_string()),
            Link::Loopback => Ok(()),
            link => options.set("link", &link.to_string()),
        };
        if let Some(rtt) = self.rtt {
            let _ = options.set("rtt", &rtt.to_string());
        }
        if let Some(Ok(others)) = self.emulate.as_deref().map(str::parse) {
            options.merge(&others);
        }
        Some(options)
    }

    /// The emulated host bus of the client; `None` without one.
    pub fn host_bus(&self) -> Option<HostBus> {
        // The text was validated when the point was created.
        self.bus.as_deref()?.parse().ok()
    }

    /// Bandwidth-delay product of the emulated link; `None` without a rate or an RTT.
    pub fn bdp(&self) -> Option<Bytes> {
        let rate = self.link_options()?.rate_bps()?;
        let Nanos(rtt_ns) = self.rtt?;
        Some(Bytes((rate * rtt_ns as f64 / 8e9) as u64))
    }

    /// Largest TCP window in bytes; `None`: kernel autotuning.
    pub fn window_bytes(&self) -> Option<Bytes> {
        Some(self.window?.bytes(self.bdp().unwrap_or_default()))
    }

    /// Duration of TCP's slow start over the emulated link: doublings from ten segments to the window or the BDP,
    /// whichever is smaller, plus [`FOUND`] RTTs. 0 without an emulated RTT.
    ///
    /// A link without a rate counts as 40 Gbit/s, which is more than TUN devices carried in any run (`docs/lab.md`).
    pub fn ramp(&self) -> Nanos {
        let Some(Nanos(rtt_ns)) = self.rtt else { return Nanos(0) };
        let fastest = Bytes((40e9 * rtt_ns as f64 / 8e9) as u64);
        let Bytes(bdp) = self.bdp().unwrap_or(fastest);
        let full = self.window_bytes().map_or(bdp, |Bytes(window)| window.min(bdp));
        let doublings = (full as f64 / FIRST_FLIGHT_BYTES as f64).log2().max(0.0).ceil();
        Nanos(rtt_ns * (doublings as u64 + FOUND))
    }
}

/// Default of `offload` over a link with these options.
pub(crate) fn default_offload(options: Option<LinkOptions>) -> Offload {
    match options {
        Some(options) if options.is_narrow() => Offload::Off,
        Some(options) if options.needs_single_packets() => Offload::Hosts,
        _ => Offload::On,
    }
}

/// Rejects a level of `offload` that the link does not support.
pub(crate) fn check_offload(levels: &Where, point: &Point) -> Result<(), Contradiction> {
    let Some(asked) = levels.get(&Factor::Offload) else { return Ok(()) };
    match point.link_options() {
        None if point.link == Link::Loopback => Ok(()),
        None => {
            let message = "offload needs an emulated link";
            refuse(Factor::Offload, message, "add rtt=0ms, or leave out offload")
        }
        Some(options) if options.is_narrow() && asked != Offload::Off.word() => {
            let message = format!(
                "offload={asked} is not supported with a pause that has no room for a super-packet"
            );
            refuse(Factor::Offload, message, "leave out offload, or use a longer queue")
        }
        Some(options) if options.needs_single_packets() && asked == Offload::On.word() => {
            let message = "offload=on is not supported with per-packet impairments";
            refuse(Factor::Offload, message, "leave out offload, or use offload=off")
        }
        Some(_) => Ok(()),
    }
}

/// The first option that sets a property of the wire. The factor `link` sets these too, and ceilings follow `link`.
fn of_the_wire(options: &str) -> Option<&str> {
    let of_a_wire = ["rate", "schedule", "trace", "framing"];
    options.split(' ').find(|word| of_a_wire.contains(&word.split('=').next().unwrap_or_default()))
}

/// Rejects emulation settings that are unsupported or that contradict other factors.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    if let Some(window @ Window::Bdp(_)) = point.window
        && point.bdp().is_none()
    {
        let message = format!("window={window} needs a link with a rate and an RTT");
        return refuse(
            Factor::Window,
            message,
            "use link=ethernet:RATE and rtt, or a window in \
                                                bytes",
        );
    }
    let Some(options) = point.link_options() else { return Ok(()) };
    if let Some(word) = point.emulate.as_deref().and_then(of_the_wire)
        && point.link.has_wire()
    {
        let message =
            format!("`{word}` in emulate conflicts with link={}, which sets it", point.link);
        return refuse(Factor::Emulate, message, "remove it, or use link=veth");
    }
    let has_delays = point
        .emulate
        .iter()
        .flat_map(|options| options.split(' '))
        .any(|word| word.starts_with("delay="));
    if has_delays && point.rtt.is_some_and(|Nanos(rtt_ns)| rtt_ns > 0) {
        let message = "rtt and a trace of delays set the same property";
        return refuse(Factor::Emulate, message, "give one of them");
    }
    if point.link == Link::Loopback {
        let factor = if point.rtt.is_some() { Factor::Rtt } else { Factor::Emulate };
        return refuse(factor, "link=loopback cannot be emulated", "use link=veth");
    }
    // The files are read later (`Plan::link_traces`); every trace builds alike.
    let options = options.with_any_traces();
    if let Err(error) = options.build::<()>(0, "") {
        let factor = if point.emulate.is_some() { Factor::Emulate } else { Factor::Link };
        return refuse(factor, error.to_string(), "see docs/lab.md for the link options");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overlay, resolve};

    fn point(levels: &str) -> Result<Point, Contradiction> {
        let base = "pattern=stream,transport=tcp,family=6,payload=65536,congestion=cubic,";
        resolve(&overlay(&format!("{base}{levels}")).unwrap())
    }

    #[test]
    fn a_round_trip_makes_a_link_an_emulated_one() {
        let long = point("link=ethernet:10G,mtu=9000,rtt=400ms,emulate=queue=50ms").unwrap();
        let options = long.link_options().unwrap().to_string();
        assert_eq!(options, "rtt=400ms link=ethernet:10G,mtu=9000 queue=50ms");
        assert_eq!(long.offload, Some(Offload::On));
        assert_eq!(long.bdp(), Some(Bytes(500_000_000)));
        assert_eq!(point("link=ethernet:10G").unwrap().link_options(), None);
        let veth = point("link=veth,mtu=9000,rtt=0ms").unwrap();
        assert_eq!(veth.link_options().unwrap().to_string(), "rtt=0ns mtu=9000");
    }

    #[test]
    fn ipoib_is_emulated_in_a_lab_without_being_asked() {
        let ipoib = point("link=ipoib:4X-SDR").unwrap();
        assert_eq!(ipoib.link_options().unwrap().mtu(), 2044);
        let connected = point("link=ipoib:4X-SDR,mode=connected,mtu=65520").unwrap();
        assert_eq!(connected.link_options().unwrap().mtu(), 65_520);
    }

    #[test]
    fn the_rate_of_emulated_ipoib_is_that_of_its_data() {
        for (link, gbps) in [
            ("1X-SDR", 2.0),
            ("4X-SDR", 8.0),
            ("4X-SDR,mode=connected,mtu=65520", 8.0),
            ("4X-DDR", 16.0),
            ("4X-QDR", 32.0),
            // 4 lanes of 14.0625 Gbit/s with 64b/66b encoding: 54.54...
            ("4X-FDR", 600.0 / 11.0),
        ] {
            let options = point(&format!("link=ipoib:{link}")).unwrap().link_options().unwrap();
            let rate_bps = options.rate_bps().unwrap();
            assert!((rate_bps / (gbps * 1e9) - 1.0).abs() < 1e-12, "{link}: {rate_bps}");
        }
    }

    #[test]
    fn options_of_single_packets_let_hosts_segment() {
        let lossy = point("link=ethernet:1G,emulate=loss=1e-3").unwrap();
        assert_eq!(lossy.offload, Some(Offload::Hosts));
        // Half of the queue is the room of a pause.
        let narrow = "link=ethernet:1G,emulate=queue=64KiB pause";
        assert_eq!(point(narrow).unwrap().offload, Some(Offload::Off));
        let wide = point("link=ethernet:1G,emulate=queue=256KiB pause").unwrap();
        assert_eq!(wide.offload, Some(Offload::On));
        for refused in
            ["link=ethernet:1G,emulate=loss=1e-3,offload=on", &format!("{narrow},offload=hosts")]
        {
            assert_eq!(point(refused).unwrap_err().factor, Factor::Offload, "{refused}");
        }
        assert_eq!(point("link=veth,offload=on").unwrap_err().factor, Factor::Offload);
    }

    #[test]
    fn a_window_of_products_needs_a_rate_and_a_round_trip() {
        let wide = point("link=ethernet:10G,rtt=400ms,window=2bdp").unwrap();
        assert_eq!(wide.window_bytes(), Some(Bytes(1_000_000_000)));
        for levels in ["link=veth,rtt=1ms,window=1bdp", "link=ethernet:1G,window=1bdp"] {
            assert_eq!(point(levels).unwrap_err().factor, Factor::Window, "{levels}");
        }
        assert!(point("link=veth,window=1MiB").is_ok());
    }

    #[test]
    fn the_ramp_grows_with_the_round_trip_and_the_product() {
        let ramp = |levels: &str| point(levels).unwrap().ramp();
        assert_eq!(ramp("link=ethernet:10G"), Nanos(0));
        assert_eq!(ramp("link=ethernet:10G,rtt=0ms"), Nanos(0));
        // log2(500 MB / 14.6 kB) is 15.06.
        assert_eq!(ramp("link=ethernet:10G,rtt=400ms"), Nanos::from_millis(400 * 24));
    }

    #[test]
    fn a_bus_of_the_starting_host_is_emulated_with_its_link() {
        let behind = point("link=ethernet:10G,bus=pci-x:133").unwrap();
        assert_eq!(behind.link_options().unwrap().to_string(), "link=ethernet:10G");
        assert_eq!(behind.host_bus().unwrap().to_string(), "pci-x:133");
        assert!(Factor::Bus.level("isa").is_err());
        assert!(point("link=loopback,bus=8G").is_err());
    }

    #[test]
    fn a_wire_has_one_rate_and_one_framing_those_of_its_link() {
        for (levels, words) in [
            ("link=ethernet:100M,emulate=rate=1G", ["`rate=1G`", "ethernet:100M", "remove it"]),
            ("link=ethernet:100M,rtt=1ms,emulate=rate=none", ["`rate=none`", "100M", "veth"]),
            ("link=ipoib:4X-SDR,emulate=queue=9p rate=1G", ["`rate=1G`", "ipoib:4X-SDR", "veth"]),
            (
                "link=ethernet:1G,emulate=schedule=1500B/1ms",
                ["`schedule=1500B/1ms`", "ethernet:1G", "link=veth"],
            ),
            ("link=ethernet:1G,emulate=trace=a.up", ["`trace=a.up`", "ethernet:1G", "veth"]),
            ("link=veth,rtt=1ms,emulate=delay=trace:d", ["rtt", "trace of delays", "one of them"]),
            ("link=ethernet:1G,emulate=framing=none", ["`framing=none`", "ethernet:1G", "veth"]),
        ] {
            let refused = point(levels).unwrap_err();
            assert_eq!(refused.factor, Factor::Emulate, "{levels}");
            for word in words {
                assert!(refused.to_string().contains(word), "{levels}: no {word:?} in {refused}");
            }
        }
        for levels in [
            "link=veth,emulate=rate=1G",
            "link=veth,emulate=rate=1G framing=ethernet:1G",
            "link=veth,rtt=1ms,emulate=schedule=1500B/1ms",
            "link=veth,emulate=trace=Verizon-LTE.up queue=50ms",
            "link=ethernet:1G,emulate=queue=50ms loss=0.1%",
        ] {
            assert!(point(levels).is_ok(), "{levels}: {:?}", point(levels));
        }
    }

    #[test]
    fn what_is_a_factor_of_its_own_is_no_word_of_emulate() {
        for text in ["rtt=1ms", "delay=1ms", "link=ethernet:1G", "mtu=9000", ""] {
            assert!(Factor::Emulate.level(text).is_err(), "{text}");
        }
        assert_eq!(Factor::Emulate.level("loss=0.1%").unwrap(), "loss=0.001");
        assert_eq!(Factor::Emulate.level("trace=x").unwrap(), "trace=x");
    }
}
