//! Writes to standard error and ignores errors: `eprintln!` panics if it is closed.

/// Writes a line to standard error, without control characters.
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::stderr::write(format_args!("{}\n", $crate::locale::harmless(&format!($($argument)*))))
    };
}

/// Writes to standard error without ending the line; control characters move the cursor.
macro_rules! status {
    ($($argument:tt)*) => { $crate::stderr::write(format_args!($($argument)*)) };
}

pub fn write(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_fmt(text).and_then(|()| stderr.flush());
}
