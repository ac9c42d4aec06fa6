//! The load on a link, by the same programs whoever emulates it: iperf3 for streams, sockperf for
//! exchanges.

use std::time::Duration;

use super::machine::busy_during;
use crate::contender::{Ends, Failure, Job, Pair};
use crate::emulation::Emulation;
use crate::peer::{iperf3, sockperf};
use crate::place::{Place, free_port};
use crate::work::{Figure, Values};

/// TCP's congestion control on every link, set by iperf3 for its socket.
pub const CONGESTION: &str = "cubic";

/// Bytes of an exchanged datagram.
const PING_PONG_BYTES: u32 = 64;

/// The share of the counted time in which processors are watched, in its middle.
const WATCHED: f64 = 0.6;

/// One TCP stream from the client to the server.
pub fn stream(job: &Job<'_>, place: &Place, asked: &Emulation) -> Result<Values, Failure> {
    let (port, address) = (free_port()?, place.address());
    let (settling, counted) = (asked.settling_s(), asked.counted_s(job.seconds));
    let payload = asked.payload_bytes();
    let server = format!("iperf3 -4 -s -1 -p {port}");
    let client = format!(
        "iperf3 -4 -c {address} -p {port} -t {counted} -O {settling} -i 0 -l {payload} -C {CONGESTION} \
         --json"
    );
    let pair = Pair::tcp(port, Ends::Itself, &server, &client);
    let counted_s = counted as f64;
    let lead = Duration::from_secs_f64(settling as f64 + counted_s * (1.0 - WATCHED) / 2.0);
    let window = Duration::from_secs_f64(counted_s * WATCHED);
    let job = Job { seconds: (settling + counted) as f64, ..*job };
    let (printed, busy) = busy_during(lead, window, || pair.run(&job, place));
    let goodput_bps = iperf3::goodput_bps(&printed?.0)?;
    let mut values = Values::from([(Figure::GoodputBps, goodput_bps)]);
    if let Some(busy) = busy.filter(|_| goodput_bps > 0.0) {
        values.insert(Figure::CpuPerGbitS, busy / (goodput_bps / 1e9));
    }
    if let Some(exact) = asked.exact_goodput_bps() {
        // A ratio has no place for 0.
        let error = (goodput_bps / exact - 1.0).abs().max(f64::EPSILON);
        values.insert(Figure::RateError, error);
    }
    Ok(values)
}

/// UDP datagrams of 64 bytes there and back, one at a time: mean and 99th percentile of their round trips.
pub fn ping_pong_ns(job: &Job<'_>, place: &Place, seconds: u64) -> Result<(f64, f64), Failure> {
    let (port, address) = (free_port()?, place.address());
    let server = format!("sockperf server -i {address} -p {port}");
    let client =
        format!("sockperf ping-pong -i {address} -p {port} -m {PING_PONG_BYTES} -t {seconds}");
    let job = Job { seconds: seconds as f64, ..*job };
    let (client, _) = Pair::udp(port, Ends::Killed, &server, &client).run(&job, place)?;
    let (mean_us, p99_us) = sockperf::half_round_trips_us(&client)?;
    Ok((2e3 * mean_us, 2e3 * p99_us))
}
