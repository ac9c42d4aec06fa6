//! Connect-exchange: a connection for each request and response, as netperf's CRR. The answering end
//! closes first, so that no port of the asking end stays behind in TIME_WAIT (RFC 9293, section
//! 3.6.1).

use std::io::{self, Read, Write};

use super::exchange::Asked;
use crate::clock::now_ns;
use crate::control::Control;
use crate::gauge::Gauge;
use crate::transport::bytes::ByteStream;
use crate::transport::is_timeout;
use fabricmark_record::Counts;
use fabricmark_units::Nanos;

/// Makes exchanges, each over a connection of its own, as long as `departure` gives times: of an open
/// loop the intended ones, each when it has come; those of the ramp do not count. The time of an exchange is from there to the other
/// end's close.
pub fn ask<S: Read + Write>(
    connect: impl Fn() -> io::Result<S>,
    request: &[u8],
    response: &mut [u8],
    mut departure: impl FnMut() -> Option<u64>,
    ramp: Nanos,
    gauge: &Gauge,
) -> io::Result<Asked> {
    let mut asked = Asked::since(now_ns(), ramp);
    while let Some(departed_ns) = departure() {
        let mut stream = connect()?;
        stream.write_all(request)?;
        stream.read_exact(response)?;
        if stream.read(&mut [0])? > 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more than the response"));
        }
        drop(stream);
        let heard_ns = now_ns();
        asked.take(heard_ns, heard_ns - departed_ns);
        gauge.add(request.len() as u64, 1);
    }
    Ok(asked.until(now_ns(), 1, request))
}

/// Answers one request over each connection until the coordinator says that all are made. `accept`
/// gives [`io::ErrorKind::WouldBlock`] when nobody asks.
pub fn answer<S: ByteStream>(
    accept: impl Fn() -> io::Result<S>,
    request: &mut [u8],
    response: &[u8],
    control: &Control,
    gauge: &Gauge,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let began = now_ns();
    loop {
        match accept() {
            Ok(mut stream) => {
                stream.read_exact(request)?;
                stream.write_all(response)?;
                stream.finish()?;
                counts.calls += 1;
                gauge.add(response.len() as u64, 1);
            }
            Err(error) if is_timeout(&error) => {
                if control.is_drained(0, u64::MAX) {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    counts.bytes = counts.calls * response.len() as u64;
    counts.elapsed_ns = now_ns() - began;
    Ok(counts)
}
