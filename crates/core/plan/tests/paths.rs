//! Payloads that a path can carry over a link.

use fabricmark_plan::{Contradiction, Factor, Point};

fn point(levels: &str) -> Result<Point, Contradiction> {
    let defaults = "pattern=stream,transport=udp,path=gso";
    fabricmark_testkit::try_point(&format!("{defaults},{levels}"))
}

#[test]
fn a_segment_of_gso_fits_the_mtu_of_its_link_with_the_headers_of_udp_and_ip() {
    for (link, family, largest) in [
        ("ethernet:1G", 4, 1472),
        ("ethernet:1G", 6, 1452),
        ("veth,mtu=9000", 4, 8972),
        ("veth,mtu=9000", 6, 8952),
        ("ipoib:4X-FDR", 4, 2016),
    ] {
        let levels = |payload| format!("link={link},family={family},payload={payload}");
        assert!(point(&levels(largest)).is_ok(), "{link} {family}");
        let refused = point(&levels(largest + 1)).unwrap_err();
        assert_eq!(refused.factor, Factor::Payload, "{link} {family}");
        for word in [
            format!("payload={} ", largest + 1),
            link.to_owned(),
            format!("at most {largest} bytes"),
        ] {
            assert!(refused.to_string().contains(&word), "no {word:?} in {refused}");
        }
    }
    // The MTU to a host that no link describes is unknown; the kernel reports it when the run starts.
    assert!(point("link=loopback,family=4,payload=60000").is_ok());
    assert!(point("link=ethernet:1G,family=4,payload=4000,path=copy").is_ok());
}
