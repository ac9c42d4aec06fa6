//! Sequence numbers of datagrams: whether short datagrams have enough bits to match a response to its request.

use fabricmark_link::Order;
use fabricmark_units::{Bytes, Nanos};

use crate::choice::Pattern;
use crate::factor::{Factor, Point};
use crate::problem::{Contradiction, refuse};
use crate::transport::Transport;

/// Datagrams of at least this length carry a 32-bit sequence number (`DatagramHeader` in the crate `proto`). A
/// shorter one carries 8 bits for each of its bytes, so that its numbers wrap sooner.
pub(crate) const NUMBERED: Bytes = Bytes(4);

/// Rejects a point with more outstanding requests than the sequence numbers of its short datagrams distinguish.
///
/// A response matches the latest request whose sequence number ends with the bits that it carries. Without
/// reordering, no later request is answered earlier, so that at most `outstanding` requests were sent since, and as
/// many again in each timeout after which a request is abandoned. At most half of the numbers may be outstanding,
/// so that a response that is late by one such timeout is not matched to another outstanding request.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    let is_asked = matches!(point.pattern, Pattern::Rr | Pattern::PingPong);
    let response = point.response.unwrap_or(point.payload);
    let (factor, Bytes(shortest)) = match point.payload <= response {
        true => (Factor::Payload, point.payload),
        false => (Factor::Response, response),
    };
    if point.transport != Transport::Udp || !is_asked || shortest >= NUMBERED.0 {
        return Ok(());
    }
    let bits = 8 * shortest;
    let most = (1_u64 << bits) / 2;
    let under_way = u64::from(point.outstanding.unwrap_or(1));
    let unit = if shortest == 1 { "byte" } else { "bytes" };
    let number = format!("the {bits}-bit request number in a {factor} of {shortest} {unit}");
    let message = if under_way > most {
        format!("outstanding={under_way} is too large for {number}")
    } else if under_way > 1 && reorders(point) {
        format!("outstanding={under_way} over a link that reorders is too large for {number}")
    } else {
        return Ok(());
    };
    let most = if reorders(point) { 1 } else { most };
    let help = format!(
        "use a payload and a response of at least {NUMBERED} bytes, or outstanding of at most \
         {most}"
    );
    refuse(factor, message, help)
}

/// Whether the emulated link reorders packets.
fn reorders(point: &Point) -> bool {
    point.link_options().is_some_and(|options| {
        let link = options.describe();
        link.reorder.is_some() || (link.jitter > Nanos(0) && link.order == Order::Free)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overlay, resolve};

    fn point(levels: &str) -> Result<Point, Contradiction> {
        let base = "pattern=rr,transport=udp,family=4,payload=64,link=ethernet:10M,";
        resolve(&overlay(&format!("{base}{levels}")).unwrap())
    }

    #[test]
    fn requests_that_short_numbers_do_not_tell_apart_are_refused_with_the_remedy() {
        for (levels, factor, words) in [
            (
                "response=1,pace=fixed:1500/s",
                Factor::Response,
                [
                    "outstanding=65536",
                    "8-bit request number in a response of 1 byte",
                    "at most 128",
                ],
            ),
            (
                "payload=2,pace=fixed:9/s",
                Factor::Payload,
                ["16-bit", "at least 4 bytes", "at most 32768"],
            ),
            (
                "payload=1,outstanding=129",
                Factor::Payload,
                ["outstanding=129", "8-bit", "at most 128"],
            ),
            (
                "payload=3,outstanding=2,rtt=1ms,emulate=reorder=0.1:5ms",
                Factor::Payload,
                ["a link that reorders", "outstanding=2", "at most 1"],
            ),
            (
                "payload=3,response=2,outstanding=2,rtt=1ms,emulate=jitter=1ms order=free",
                Factor::Response,
                ["a link that reorders", "16-bit", "at least 4 bytes"],
            ),
        ] {
            let refused = point(levels).unwrap_err();
            assert_eq!(refused.factor, factor, "{levels}");
            for word in words {
                assert!(refused.to_string().contains(word), "{levels}: no {word:?} in {refused}");
            }
        }
    }

    #[test]
    fn short_requests_are_asked_where_their_numbers_tell_them_apart() {
        for levels in [
            "payload=1",
            "payload=1,rtt=1ms,emulate=reorder=0.1:5ms",
            "payload=1,outstanding=128",
            "payload=2,outstanding=32768",
            "payload=3,pace=fixed:9/s",
            "payload=4,pace=fixed:9/s",
            "payload=1,outstanding=2,rtt=1ms,emulate=jitter=1ms",
            "pattern=ping-pong,payload=1",
            "pattern=stream,payload=1,pace=fixed:9/s",
            "payload=1,pace=fixed:9/s,transport=tcp,congestion=cubic",
        ] {
            assert!(point(levels).is_ok(), "{levels}: {:?}", point(levels));
        }
    }
}
