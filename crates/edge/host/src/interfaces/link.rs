//! Links as rtnetlink(7) reports them, from the bytes of RTM_NEWLINK (linux/rtnetlink.h, linux/if_link.h).

use fabricmark_ethtool::netlink::{
    Netlink, NetlinkError, attribute, bodies, encoded, number, put_string, string,
};
use libc::{
    IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINK_NETNSID,
    IFLA_LINKINFO, IFLA_MASTER, IFLA_MAX_MTU, IFLA_MIN_MTU, IFLA_MTU, IFLA_NUM_RX_QUEUES,
    IFLA_NUM_TX_QUEUES, IFLA_OPERSTATE, IFLA_QDISC, NLM_F_DUMP, RTM_GETLINK, RTM_NEWLINK,
};

/// Length of `struct ifinfomsg`, and the offsets of its type (`ARPHRD_*`), index and flags.
const INFO_BYTES: usize = 16;
const TYPE_AT: usize = 2;
const INDEX_AT: usize = 4;
const FLAGS_AT: usize = 8;

// Attributes of IFLA_INFO_DATA of an IPoIB link.
const IPOIB_PKEY: u16 = 1;
const IPOIB_MODE: u16 = 2;

/// A link of the network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Name.
    pub name: String,
    /// Index.
    pub index: u32,
    /// Hardware type, `ARPHRD_*` of linux/if_arp.h.
    pub hardware: u16,
    /// `IFF_*` of linux/if.h.
    pub flags: u32,
    /// Hardware address.
    pub address: Vec<u8>,
    /// MTU, in bytes.
    pub mtu: Option<u32>,
    /// Smallest MTU.
    pub mtu_min: Option<u32>,
    /// Largest MTU; 0 for no limit.
    pub mtu_max: Option<u32>,
    /// Operational state, `IF_OPER_*` of linux/if.h (RFC 2863).
    pub state: Option<u8>,
    /// Root queueing discipline.
    pub qdisc: Option<String>,
    /// Kind of a virtual device, such as `veth`.
    pub kind: Option<String>,
    /// P_Key of an IPoIB link.
    pub pkey: Option<u16>,
    /// Mode of an IPoIB link, `IPOIB_MODE_*`: 0 for datagram, 1 for connected.
    pub mode: Option<u16>,
    /// Index of the peer of a veth, or of the link below, if that is in the same namespace.
    pub lower: Option<u32>,
    /// Index of the bridge or bond of this link.
    pub master: Option<u32>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Send queues.
    pub tx_queues: Option<u32>,
}

impl Link {
    /// The hardware address as in sysfs: bytes in hexadecimal with colons.
    pub fn address(&self) -> String {
        let bytes = self.address.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    }
}

/// Parses the body of RTM_NEWLINK; `None` if it has no name.
pub(super) fn link(body: &[u8]) -> Option<Link> {
    let attributes = body.get(INFO_BYTES..)?;
    let value = |kind: u16| attribute(attributes, kind);
    let word = |kind: u16| value(kind).and_then(number).map(u32::from_ne_bytes);
    let text = |kind: u16| value(kind).and_then(string).map(str::to_owned);
    let info = value(IFLA_LINKINFO).unwrap_or_default();
    let kind = attribute(info, IFLA_INFO_KIND).and_then(string);
    let data = attribute(info, IFLA_INFO_DATA).filter(|_| kind == Some("ipoib"));
    let half = |kind: u16| {
        data.and_then(|data| attribute(data, kind)).and_then(number).map(u16::from_ne_bytes)
    };
    Some(Link {
        name: text(IFLA_IFNAME)?,
        index: u32::from_ne_bytes(number(&body[INDEX_AT..])?),
        hardware: u16::from_ne_bytes(number(&body[TYPE_AT..])?),
        flags: u32::from_ne_bytes(number(&body[FLAGS_AT..])?),
        address: value(IFLA_ADDRESS).unwrap_or_default().to_vec(),
        mtu: word(IFLA_MTU),
        mtu_min: word(IFLA_MIN_MTU),
        mtu_max: word(IFLA_MAX_MTU),
        state: value(IFLA_OPERSTATE).and_then(|value| value.first().copied()),
        qdisc: text(IFLA_QDISC),
        kind: kind.map(str::to_owned),
        pkey: half(IPOIB_PKEY),
        mode: half(IPOIB_MODE),
        lower: word(IFLA_LINK).filter(|index| *index != 0 && value(IFLA_LINK_NETNSID).is_none()),
        master: word(IFLA_MASTER).filter(|index| *index != 0),
        rx_queues: word(IFLA_NUM_RX_QUEUES),
        tx_queues: word(IFLA_NUM_TX_QUEUES),
    })
}

/// The link of this name in the network namespace of the calling thread; the kernel rejects an unknown name.
pub(super) fn link_named(name: &str) -> Result<Link, NetlinkError> {
    // The name may come from another host, and would not fit into an attribute.
    if name.len() >= libc::IFNAMSIZ {
        return Err(NetlinkError::Rejected { errno: libc::ENODEV, message: None });
    }
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let body = [vec![0; INFO_BYTES], encoded(&[put_string(IFLA_IFNAME, name)])].concat();
    let answer = netlink.request(RTM_GETLINK, 0, &body)?;
    let mut links = bodies(&answer).filter(|message| message.kind == RTM_NEWLINK);
    let found = links.find_map(|message| link(message.body));
    found.ok_or_else(|| NetlinkError::Malformed(format!("no name of the link {name}")))
}

/// All links of the network namespace of the calling thread.
pub(super) fn links() -> Result<Vec<Link>, NetlinkError> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let answer = netlink.request(RTM_GETLINK, NLM_F_DUMP as u16, &[0; INFO_BYTES])?;
    let links = bodies(&answer).filter(|message| message.kind == RTM_NEWLINK);
    Ok(links.filter_map(|message| link(message.body)).collect())
}

#[cfg(test)]
mod tests {
    use fabricmark_ethtool::netlink::{nest, put};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_loopback_is_a_link_of_this_namespace() {
        let links = links().unwrap();
        let lo = links.iter().find(|link| link.name == "lo").unwrap();
        assert_eq!((lo.index, lo.hardware), (1, libc::ARPHRD_LOOPBACK));
        assert_eq!(lo.address, [0; 6]);
        assert_eq!((lo.kind.as_deref(), lo.lower), (None, None));
        assert_eq!(link_named("lo").unwrap(), *lo);
    }

    #[test]
    fn a_link_of_an_unknown_name_is_rejected() {
        for name in ["no-such-link", "0123456789abcdef", &"x".repeat(1 << 20)] {
            let error = link_named(name).unwrap_err();
            assert!(matches!(error, NetlinkError::Rejected { errno: libc::ENODEV, .. }), "{error}");
        }
    }

    #[test]
    fn an_ipoib_link_has_its_partition_and_mode() {
        let mut body = vec![0; INFO_BYTES];
        body[TYPE_AT] = 32;
        body[INDEX_AT] = 7;
        let data = [put(IPOIB_PKEY, &0x8001_u16.to_ne_bytes()), put(IPOIB_MODE, &[1, 0])];
        let kind = put_string(IFLA_INFO_KIND, "ipoib");
        body.extend(encoded(&[
            put_string(IFLA_IFNAME, "ib0.8001"),
            put(IFLA_LINK, &5_u32.to_ne_bytes()),
            nest(IFLA_LINKINFO, &[kind, nest(IFLA_INFO_DATA, &data)]),
        ]));
        let expected = Link {
            name: "ib0.8001".to_owned(),
            index: 7,
            hardware: 32,
            kind: Some("ipoib".to_owned()),
            pkey: Some(0x8001),
            mode: Some(1),
            lower: Some(5),
            ..Link::default()
        };
        assert_eq!(link(&body), Some(expected));
        // The index of a link in another namespace means nothing here.
        body.extend(encoded(&[put(IFLA_LINK_NETNSID, &[0; 4])]));
        assert_eq!(link(&body).unwrap().lower, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(0_u8..60, 0..200)) {
            let _ = link(&bytes);
        }
    }
}
