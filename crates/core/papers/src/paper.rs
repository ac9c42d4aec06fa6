//! The papers and the headings of their tables.

/// Bibliographic data of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Short name, such as `P1`.
    pub name: &'static str,
    /// Authors, in the order of the title page.
    pub authors: &'static str,
    /// Full title.
    pub title: &'static str,
    /// Year of publication. P3 and P5 print none; for them the latest year that they mention.
    pub year: u16,
    /// Summary of the experiment in one sentence.
    pub summary: &'static str,
    /// Headings of the tables, in order.
    pub tables: &'static [Heading],
}

/// Heading of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Name of the table in cells: `table IV`.
    pub place: &'static str,
    /// What the table shows.
    pub title: &'static str,
    /// Meaning and unit of the row names.
    pub rows: &'static str,
}

const fn heading(place: &'static str, rows: &'static str, title: &'static str) -> Heading {
    Heading { place, title, rows }
}

static PAPERS: [Paper; 5] = [
    Paper {
        name: "P1",
        authors: "Eric Gamess, Humberto Ortiz-Zuazaga",
        title: "Analytical Performance Evaluation of IPv6 and IPv4 Over 10 Gigabit Ethernet and \
                InfiniBand using IPoIB",
        year: 2016,
        summary: "UDP and TCP over IPv4 and IPv6: goodput and RTT/2 of 14 payloads on \
                  10-gigabit Ethernet and 4X FDR IPoIB, one switch each.",
        tables: &[
            heading("table I", "link", "Signal and data rates of InfiniBand"),
            heading(
                "table II",
                "payload B",
                "UDP throughput over IPoIB/FDR in datagram and connected modes",
            ),
            heading(
                "table III",
                "payload B",
                "UDP latency over IPoIB/FDR in datagram and connected modes",
            ),
            heading("table IV", "payload B", "UDP throughput over 10GbE and IPoIB/FDR"),
            heading("table V", "payload B", "UDP latency over 10GbE and IPoIB/FDR"),
            heading("table VI", "payload B", "TCP throughput over 10GbE and IPoIB/FDR"),
            heading("table VII", "payload B", "TCP latency over 10GbE and IPoIB/FDR"),
        ],
    },
    Paper {
        name: "P2",
        authors: "Ryan E. Grant, Ahmad Afsahi, Pavan Balaji",
        title: "Evaluation of ConnectX Virtual Protocol Interconnect for Data Centers",
        year: 2009,
        summary: "Verbs, SDP, IPoIB and 10-gigabit Ethernet on one adapter with a port of each \
                  kind: separately, together, and as the network of a web shop.",
        tables: &[],
    },
    Paper {
        name: "P3",
        authors: "Junji Tamatsukuri, Katsushi Inagami, Mary Inaba, Kei Hiraki",
        title: "Experimental Results of TCP/IP data transfer On 10Gbps IPv6 Network",
        year: 2005,
        summary: "One TCP stream over IPv6 through emulated delays up to 400 ms and over three \
                  real loops between Tokyo, Seattle and Chicago.",
        tables: &[],
    },
    Paper {
        name: "P4",
        authors: "Gurkirat Kaur, Manoj Kumar, Manju Bala",
        title: "Performance Evaluation of Soft RoCE over 1 Gigabit Ethernet",
        year: 2013,
        summary: "Intel's MPI benchmarks between two hosts over Soft RoCE and over TCP; results \
                  as figures only.",
        tables: &[],
    },
    Paper {
        name: "P5",
        authors: "Daniel Zinca, Virgil Dobrota, Cristian Mihai Vancea",
        title: "Performance Evaluation of Layer 4 Switching in IPv6 versus IPv4",
        year: 2000,
        summary: "A process that relays TCP between sockets over 100 Mb/s Ethernet, with and \
                  without departure schedules, and a protocol that measures RTTs at layer 7.",
        tables: &[
            heading(
                "table 1",
                "buffer B",
                "Testfile1 relayed over IPv4, by the application's buffer size",
            ),
            heading(
                "table 2",
                "buffer B",
                "Testfile1 relayed over IPv6, by the application's buffer size",
            ),
            heading(
                "table 3",
                "interval",
                "Testfile2 relayed over IPv4 on the schedule of Model 100",
            ),
        ],
    },
];

/// All papers, P1 to P5.
pub fn papers() -> &'static [Paper] {
    &PAPERS
}

/// Looks up a paper by name, such as `P1`.
pub fn paper(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}
