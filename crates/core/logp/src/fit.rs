//! Fits of times by message size.

/// Fewest sizes of a piece: a line through two points fits any two.
const SIZES_MIN: usize = 3;

/// Factor by which two pieces must reduce the sum of squared errors of one. Libraries send short messages at once and
/// agree on long ones first, so that most times have two pieces.
const GAIN_MIN: f64 = 4.0;

/// Root mean square of the relative errors up to which one line is good enough: the tie band of latencies.
const ERROR_SMALL: f64 = 0.03;

/// A line: a message of m bytes takes `latency_ns + m * ns_per_byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// α of Hockney's model, L + 2o of LogGP; of bursts LogGP's g.
    pub latency_ns: f64,
    /// 1/β of Hockney's model, G of LogGP.
    pub ns_per_byte: f64,
}

impl Line {
    /// The line with the least sum of squared relative errors; `None` for fewer than three sizes, or if it would
    /// fall with the size or begin below 0.
    pub fn fit(times: &[(u64, f64)]) -> Option<Self> {
        if times.len() < SIZES_MIN {
            return None;
        }
        // Minimise the sum of ((a + b m) / t - 1)^2: linear in a and b with weights 1/t^2.
        let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(bytes, ns) in times {
            if !(ns.is_finite() && ns > 0.0) {
                return None;
            }
            let (x, weight) = (bytes as f64, 1.0 / (ns * ns));
            w += weight;
            wx += weight * x;
            wxx += weight * x * x;
            wy += weight * ns;
            wxy += weight * x * ns;
        }
        let determinant = w * wxx - wx * wx;
        if determinant <= 0.0 {
            return None;
        }
        let line = Self {
            latency_ns: (wxx * wy - wx * wxy) / determinant,
            ns_per_byte: (w * wxy - wx * wy) / determinant,
        };
        (line.latency_ns >= 0.0 && line.ns_per_byte >= 0.0).then_some(line)
    }

    /// Time of a message in ns.
    pub fn ns(&self, bytes: f64) -> f64 {
        self.latency_ns + bytes * self.ns_per_byte
    }

    /// Asymptotic bandwidth in bit/s; `None` if the time does not depend on the size.
    pub fn bandwidth_bps(&self) -> Option<f64> {
        (self.ns_per_byte > 0.0).then(|| 8e9 / self.ns_per_byte)
    }

    /// Message size at half of the asymptotic bandwidth in bytes (Hockney's n½).
    pub fn half_bytes(&self) -> Option<f64> {
        (self.ns_per_byte > 0.0).then(|| self.latency_ns / self.ns_per_byte)
    }

    /// Relative errors of the line.
    fn errors<'a>(&'a self, times: &'a [(u64, f64)]) -> impl Iterator<Item = f64> + 'a {
        times.iter().map(|&(bytes, ns)| self.ns(bytes as f64) / ns - 1.0)
    }
}

/// A range of sizes with a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Smallest size in bytes.
    pub from: u64,
    /// Largest size in bytes.
    pub to: u64,
    /// Its line.
    pub line: Line,
    /// Largest relative error of the line, as a share.
    pub error: f64,
}

/// One line for all sizes, or two for short and long messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// One or two pieces, in the order of sizes.
    pub pieces: Vec<Piece>,
}

impl Model {
    /// Fits times by size, which are in ascending order of sizes. `None` for fewer than three sizes.
    pub fn fit(times: &[(u64, f64)]) -> Option<Self> {
        let squares = |line: &Line, times: &[(u64, f64)]| -> f64 {
            line.errors(times).map(|error| error * error).sum()
        };
        let whole = Line::fit(times).map(|line| (squares(&line, times), vec![piece(line, times)]));
        let splits = SIZES_MIN..(times.len() + 1).saturating_sub(SIZES_MIN);
        let of_split = |at: usize| {
            let (short, long) = times.split_at(at);
            let (one, other) = (Line::fit(short)?, Line::fit(long)?);
            let sum = squares(&one, short) + squares(&other, long);
            Some((sum, vec![piece(one, short), piece(other, long)]))
        };
        let split = splits.filter_map(of_split).min_by(|a, b| a.0.total_cmp(&b.0));
        let pieces = match (whole, split) {
            (Some(whole), _) if whole.0 <= ERROR_SMALL * ERROR_SMALL * times.len() as f64 => {
                whole.1
            }
            (Some(whole), Some(split)) if split.0 * GAIN_MIN > whole.0 => whole.1,
            (_, Some(split)) => split.1,
            (whole, None) => whole?.1,
        };
        Some(Self { pieces })
    }

    /// The same pieces, fitted to other times of the same sizes.
    pub fn refit(&self, times: &[(u64, f64)]) -> Option<Self> {
        let again = |old: &Piece| {
            let of_piece = times.iter().filter(|(bytes, _)| (old.from..=old.to).contains(bytes));
            let own: Vec<(u64, f64)> = of_piece.copied().collect();
            Some(piece(Line::fit(&own)?, &own))
        };
        let pieces: Option<Vec<Piece>> = self.pieces.iter().map(again).collect();
        Some(Self { pieces: pieces? })
    }

    /// Time of a message in ns: by the piece of its size, or the nearest one.
    pub fn ns(&self, bytes: f64) -> f64 {
        let of_size = self.pieces.iter().find(|piece| bytes <= piece.to as f64);
        of_size.or(self.pieces.last()).map_or(0.0, |piece| piece.line.ns(bytes))
    }
}

fn piece(line: Line, times: &[(u64, f64)]) -> Piece {
    let sizes = || times.iter().map(|&(bytes, _)| bytes);
    Piece {
        from: sizes().min().unwrap_or(0),
        to: sizes().max().unwrap_or(0),
        line,
        error: line.errors(times).map(f64::abs).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes() -> Vec<u64> {
        (0..=20).map(|power| 1 << power).collect()
    }

    #[test]
    fn a_line_has_hockneys_parameters() {
        let line = Line { latency_ns: 2000.0, ns_per_byte: 8.0 };
        assert_eq!(line.bandwidth_bps(), Some(1e9));
        assert_eq!(line.half_bytes(), Some(250.0));
        // Half of the asymptotic bandwidth at that size.
        assert_eq!(8e9 * 250.0 / line.ns(250.0), 0.5e9);
    }

    proptest! {
        #[test]
        fn times_of_a_line_are_fitted_by_that_line(latency in 10.0..1e6_f64, slope in 0.01..100.0_f64) {
            let line = Line { latency_ns: latency, ns_per_byte: slope };
            let times: Vec<(u64, f64)> =
                sizes().into_iter().map(|bytes| (bytes, line.ns(bytes as f64))).collect();
            let model = Model::fit(&times).unwrap();
            prop_assert_eq!(model.pieces.len(), 1);
            let found = model.pieces[0].line;
            prop_assert!((found.latency_ns / latency - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!((found.ns_per_byte / slope - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!(model.pieces[0].error < 1e-6);
        }
    }

    #[test]
    fn two_protocols_are_two_pieces() {
        let ns = |bytes: u64| match bytes {
            ..=4096 => 1000.0 + bytes as f64,
            _ => 9000.0 + 0.1 * bytes as f64,
        };
        let times: Vec<(u64, f64)> = sizes().into_iter().map(|bytes| (bytes, ns(bytes))).collect();
        let model = Model::fit(&times).unwrap();
        let ranges: Vec<(u64, u64)> = model.pieces.iter().map(|p| (p.from, p.to)).collect();
        assert_eq!(ranges, [(1, 4096), (8192, 1 << 20)]);
        assert!((model.ns(100.0) - 1100.0).abs() < 1e-6);
        // Between the pieces the longer one counts.
        assert!((model.ns(5000.0) - 9500.0).abs() < 1e-3);
        let twice: Vec<(u64, f64)> = times.iter().map(|&(bytes, ns)| (bytes, 2.0 * ns)).collect();
        let again = model.refit(&twice).unwrap();
        assert!((again.pieces[1].line.latency_ns - 18_000.0).abs() < 1e-3);
    }

    #[test]
    fn too_few_sizes_and_impossible_times_have_no_fit() {
        assert_eq!(Model::fit(&[(1, 10.0), (2, 11.0)]), None);
        assert_eq!(Line::fit(&[(1, 10.0), (2, 0.0), (4, 12.0)]), None);
        assert_eq!(Line::fit(&[(1, 30.0), (2, 20.0), (4, 10.0)]), None, "times that fall");
    }
}
