//! Points that cannot be run, and why.

use fabricmark_plan::Point;
use fabricmark_units::Bytes;
use fabricmark_wire::lfn::WINDOW_MAX;

/// Why a point is skipped; `None` if it is run.
pub(crate) fn reason(point: &Point) -> Option<String> {
    let Bytes(window) = point.window_bytes()?;
    (window > WINDOW_MAX).then(|| {
        format!(
            "a window of {window} bytes exceeds TCP's maximum of {WINDOW_MAX} (RFC 7323, section \
             2.3)"
        )
    })
}
