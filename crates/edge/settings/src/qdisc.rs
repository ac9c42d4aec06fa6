//! The root queueing discipline of a device, by the program `tc` of iproute2.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::error::Cause;

/// Value of a device whose queueing disciplines are those that the kernel attached.
pub(crate) const DEFAULT: &str = "default";

/// The kind of the root queueing discipline, or [`DEFAULT`].
pub(crate) fn read(device: &str) -> Result<String, Cause> {
    let text = tc(&["-j", "qdisc", "show", "dev", device], None)?;
    let queues: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| Cause::NoSetting(format!("tc printed no list of qdiscs: {error}")))?;
    root(&queues)
}

/// The kernel gives the handle 0: to what it attaches itself. Queueing disciplines of other handles were set by
/// somebody, with options that cannot be told from their defaults.
fn root(queues: &[Value]) -> Result<String, Cause> {
    let is_ingress = |queue: &Value| matches!(queue["kind"].as_str(), Some("ingress" | "clsact"));
    let set = queues.iter().filter(|queue| queue["handle"] != "0:" && !is_ingress(queue));
    let set: Vec<&Value> = set.collect();
    match set.as_slice() {
        [] => Ok(DEFAULT.to_owned()),
        [queue] if queue["root"] == true => Ok(queue["kind"].as_str().unwrap_or_default().into()),
        _ => Err(Cause::NotRestorable(
            "the device has a tree of qdiscs: remove it first with tc qdisc del dev DEVICE root"
                .to_owned(),
        )),
    }
}

/// Sets the root queueing discipline, with the defaults of its kind. `lock` stays locked until `tc` has ended, even if
/// this process is killed meanwhile.
pub(crate) fn write(device: &str, kind: &str, lock: &File) -> Result<(), Cause> {
    let result = match kind {
        DEFAULT => tc(&["qdisc", "del", "dev", device, "root"], Some(lock)),
        kind => tc(&["qdisc", "replace", "dev", device, "root", kind], Some(lock)),
    };
    result.map(|_| ())
}

fn tc(arguments: &[&str], lock: Option<&File>) -> Result<String, Cause> {
    let refused = |error: std::io::Error| Cause::Refused(format!("cannot run tc: {error}"));
    let file = fabricmark_host::program("tc").ok_or(Cause::NoProgram("tc"))?;
    let stdin = match lock {
        // A lock of flock(2) is released with the last descriptor of its open file.
        Some(lock) => Stdio::from(lock.try_clone().map_err(refused)?),
        None => Stdio::null(),
    };
    let mut command = Command::new(file);
    command.args(arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Output { status, stdout, stderr } = command.output().map_err(refused)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&stderr).trim().to_owned();
    Err(if message.contains("Cannot find device") {
        Cause::NoDevice
    } else if message.contains("Operation not permitted") {
        Cause::NoPrivilege(format!("`tc {}`: {message}", arguments.join(" ")))
    } else {
        Cause::Refused(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, Cause> {
        root(&serde_json::from_str::<Vec<Value>>(text).unwrap())
    }

    // As iproute2 6.1 prints them.
    #[test]
    fn the_handle_tells_what_the_kernel_attached_from_what_was_set() {
        let kernel = r#"[{"kind":"mq","handle":"0:","root":true,"options":{}},
            {"kind":"fq","handle":"0:","parent":":1","options":{"limit":10000}}]"#;
        assert_eq!(of(kernel).unwrap(), "default");
        let ingress = r#"[{"kind":"noqueue","handle":"0:","root":true,"options":{}},
            {"kind":"clsact","handle":"ffff:","parent":"ffff:fff1","options":{}}]"#;
        assert_eq!(of(ingress).unwrap(), "default");
        let set = r#"[{"kind":"pfifo","handle":"8207:","root":true,"options":{"limit":1000}}]"#;
        assert_eq!(of(set).unwrap(), "pfifo");
        assert_eq!(of("[]").unwrap(), "default");
        let tree = r#"[{"kind":"mq","handle":"0:","root":true,"options":{}},
            {"kind":"fq","handle":"8001:","parent":":1","options":{}}]"#;
        assert!(matches!(of(tree), Err(Cause::NotRestorable(_))));
    }
}
