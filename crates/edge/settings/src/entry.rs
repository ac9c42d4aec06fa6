//! An entry of the journal: what was changed, by whom, and the values to put back.

use crc::{CRC_32_ISO_HDLC, Crc};
use serde::{Deserialize, Serialize};

use crate::namespace::Namespace;
use crate::owner::Owner;
use crate::place::Place;
use crate::system::Device;

/// First word of an entry.
const NAME: &str = "fabricmark-setting";

/// Second word: the version of what follows.
const VERSION: &str = "1";

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

fn sum_of(json: &str) -> String {
    format!("{:08x}", CRC.checksum(json.as_bytes()))
}

fn line(json: &str) -> String {
    format!("{NAME} {VERSION} {} {json}\n", sum_of(json))
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// Boot id (random(4)) of the kernel whose setting it is.
    pub boot: String,
    /// The network namespace of the owner.
    pub namespace: Namespace,
    pub owner: Owner,
    /// `None` for a setting of the namespace or of the machine.
    pub device: Option<Device>,
    /// The change as text, such as `mtu=9000`.
    pub change: String,
    pub state: State,
    /// In the order in which they are written, and put back in the reverse order.
    pub values: Vec<Value>,
}

/// How far the change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// The owner writes values. Where a device may round what it gets, a value that is neither the old nor the new one
    /// is the owner's, too.
    Changing,
    /// The new values were read back. Any other value is somebody else's.
    Changed,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Value {
    pub place: Place,
    pub old: String,
    /// `None` if the kernel may change the value together with the setting, until it is known to what.
    pub new: Option<String>,
    /// Whether the owner writes it; otherwise the kernel may change it together with the setting.
    pub is_written: bool,
}

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is damaged")]
    Damaged,
    #[error("another version of fabricmark wrote it")]
    OtherVersion,
}

impl Entry {
    /// The entry as one line: format, checksum, JSON.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(line(&json).into_bytes())
    }

    /// Parses a line; accepts only whole lines with the right checksum.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Damaged)?;
        let line = text.strip_suffix('\n').ok_or(Unreadable::Damaged)?;
        let mut parts = line.splitn(4, ' ');
        let mut part = || parts.next().ok_or(Unreadable::Damaged);
        let (name, version, sum, json) = (part()?, part()?, part()?, part()?);
        if name == NAME && version != VERSION && version.parse::<u32>().is_ok() {
            return Err(Unreadable::OtherVersion);
        }
        if name != NAME || version != VERSION || sum != sum_of(json) {
            return Err(Unreadable::Damaged);
        }
        serde_json::from_str(json).map_err(|_| Unreadable::Damaged)
    }

    /// Whether both entries have this place of the same device, namespace or machine.
    pub fn has(&self, place: &Place, namespace: &Namespace, device: Option<&Device>) -> bool {
        let index = |device: Option<&Device>| device.map(|device| device.index);
        let is_there = place.is_of_machine()
            || (self.namespace == *namespace
                && (!place.is_of_device() || index(self.device.as_ref()) == index(device)));
        is_there && self.values.iter().any(|value| value.place == *place)
    }

    /// Whether the kernel may change other values together with the setting.
    pub fn affects_others(&self) -> bool {
        self.values.iter().any(|value| !value.is_written)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn sample() -> Entry {
        let value = |place, old: &str, new: &str| Value {
            place,
            old: old.to_owned(),
            new: Some(new.to_owned()),
            is_written: true,
        };
        let sysctl = "net.ipv4.tcp_sack".to_owned().try_into().unwrap();
        Entry {
            boot: "b".to_owned(),
            namespace: Namespace { device: 4, inode: 5, cookie: Some(6) },
            owner: Owner { pid: 7, start: 8 },
            device: Some(Device { name: "eth0".to_owned(), index: 2 }),
            change: "mtu=9000".to_owned(),
            state: State::Changing,
            values: vec![
                value(Place::Mtu, "1500", "9000"),
                value(Place::Rps(3), "0", "f"),
                value(Place::Sysctl(sysctl), "1", "0"),
            ],
        }
    }

    /// The form in which entries are on disk; a change needs a new version.
    #[test]
    fn an_entry_is_one_line_with_a_checksum() {
        let line = String::from_utf8(sample().encode().unwrap()).unwrap();
        let expected = "fabricmark-setting 1 CRC {\"boot\":\"b\",\"namespace\":{\"device\":4,\"inode\":5,\
             \"cookie\":6},\"owner\":{\"pid\":7,\"start\":8},\"device\":{\"name\":\"eth0\",\"index\":2},\
             \"change\":\"mtu=9000\",\"state\":\"changing\",\"values\":[{\"place\":\"mtu\",\"old\":\"1500\",\
             \"new\":\"9000\",\"is_written\":true},{\"place\":{\"rps\":3},\"old\":\"0\",\"new\":\"f\",\
             \"is_written\":true},{\"place\":{\"sysctl\":\"net.ipv4.tcp_sack\"},\"old\":\"1\",\"new\":\"0\",\
             \"is_written\":true}]}\n";
        let sum = line.split(' ').nth(2).unwrap();
        assert_eq!(line, expected.replace("CRC", sum));
        assert_eq!(Entry::decode(line.as_bytes()), Ok(sample()));
    }

    #[test]
    fn an_entry_of_another_version_is_told_from_a_damaged_one() {
        let line = |version: &str| format!("fabricmark-setting {version} 00000000 {{}}\n");
        assert_eq!(Entry::decode(line("2").as_bytes()), Err(Unreadable::OtherVersion));
        assert_eq!(Entry::decode(line("10").as_bytes()), Err(Unreadable::OtherVersion));
        for damaged in [line("1"), line("x"), String::new(), "fabricmark-setting 2".to_owned()] {
            assert_eq!(Entry::decode(damaged.as_bytes()), Err(Unreadable::Damaged), "{damaged}");
        }
    }

    /// A sum over the JSON says nothing about what it means: a sysctl outside the list is no entry.
    #[test]
    fn an_entry_cannot_name_a_sysctl_that_no_change_can() {
        let json = serde_json::to_string(&sample()).unwrap();
        let json = json.replace("net.ipv4.tcp_sack", "net/../kernel/panic");
        let line = line(&json);
        assert_eq!(Entry::decode(line.as_bytes()), Err(Unreadable::Damaged));
    }

    #[test]
    fn a_torn_entry_is_none() {
        let line = sample().encode().unwrap();
        for length in 0..line.len() {
            assert_eq!(Entry::decode(&line[..length]), Err(Unreadable::Damaged), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(Entry::decode(&bytes).is_err());
        }

        #[test]
        fn any_text_behind_the_right_checksum_is_parsed_without_panic(json in ".{0,200}") {
            let line = line(&json);
            prop_assert!(Entry::decode(line.as_bytes()).is_err());
        }

        #[test]
        fn a_changed_byte_makes_an_entry_unreadable(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut line = sample().encode().unwrap();
            let at = at.index(line.len());
            prop_assume!(line[at] != byte);
            line[at] = byte;
            prop_assert!(Entry::decode(&line).is_err());
        }
    }
}
