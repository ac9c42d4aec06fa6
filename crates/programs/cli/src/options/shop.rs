//! Options of `shop`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::{Args, Subcommand};
use fabricmark_plan::{Factor, Point, SEGMENTS, Tier};
use fabricmark_units::Nanos;

use super::{Key, Place, To};

/// What `shop` does.
#[derive(Debug, Subcommand)]
pub enum Shop {
    /// Start the tiers of a bookstore in a lab or on hosts, load its data, check every page, and serve it until Ctrl-C
    Up(Up),
    /// End the bookstore that `shop up` has started
    Down,
    /// Emulate browsers in a bookstore, and report response times and throughput
    Load(Box<Load>),
}

/// The tiers and their data.
#[derive(Args, Debug)]
pub struct Tiers {
    /// Number of books
    #[arg(long, value_name = "N", default_value = "10000")]
    pub items: u32,
    /// Number of emulated browsers; the shop has 2,880 customers for each
    #[arg(long, value_name = "N", default_value = "100")]
    pub browsers: u32,
    /// Database
    #[arg(long, value_name = "NAME", default_value = "mariadb", value_parser = ["mariadb", "postgresql"])]
    pub db: String,
    /// Link of a segment between tiers: client-web, web-app or app-db; may be repeated [default: ethernet:10G; web-app: the link of app-db]
    #[arg(long, value_name = "SEGMENT=LINK", value_parser = segment)]
    pub segment: Vec<(Factor, String)>,
    /// Run a server on another host, through its agent, which needs --allow-shop: web, app or db; may be repeated. Without
    /// this option all tiers are in a lab on this host
    #[arg(long, value_name = "TIER=HOST", value_parser = To::parse)]
    pub to: Vec<To>,
    /// Whose key is shown to the agents
    #[command(flatten)]
    pub key: Key,
    /// Maximum number of connections from the application server to the database
    #[arg(long, value_name = "N", default_value = "16")]
    pub pool: u32,
}

impl Tiers {
    /// The levels of a plan.
    pub fn levels(&self) -> Vec<(Factor, String)> {
        let numbers = [
            (Factor::Items, self.items),
            (Factor::CustomersFor, self.browsers),
            (Factor::Browsers, self.browsers),
            (Factor::Pool, self.pool),
        ];
        let mut levels: Vec<(Factor, String)> =
            numbers.into_iter().map(|(factor, number)| (factor, number.to_string())).collect();
        levels.push((Factor::Database, self.db.clone()));
        levels.extend(self.segment.iter().cloned());
        levels
    }
}

/// `SEGMENT=LINK`.
fn segment(text: &str) -> Result<(Factor, String), String> {
    let named =
        |name: &str| SEGMENTS.into_iter().find(|factor| factor.key().replace('_', "-") == name);
    let known = SEGMENTS.map(|factor| factor.key().replace('_', "-"));
    let found = text.split_once('=').and_then(|(name, link)| Some((named(name)?, link.to_owned())));
    found.ok_or_else(|| format!("use SEGMENT=LINK, where SEGMENT is one of {}", known.join(", ")))
}

/// Options of `shop up`.
#[derive(Args, Debug)]
pub struct Up {
    /// What is started
    #[command(flatten)]
    pub tiers: Tiers,
    /// Address and port of this host at which the shop can be used in a browser; with port 0 any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
}

/// Options of `shop load`.
#[derive(Args, Debug)]
pub struct Load {
    /// What is started
    #[command(flatten)]
    pub tiers: Tiers,
    /// Mix of web interactions: browsing, shopping or ordering
    #[arg(long, value_name = "MIX", default_value = "shopping")]
    pub mix: String,
    /// Mean think time of a browser [default: 7s]
    #[arg(long, value_name = "TIME", conflicts_with = "arrivals")]
    pub think_time: Option<Nanos>,
    /// Open loop: web interactions per second, which begin at random times whether earlier ones were answered or not;
    /// --browsers are then the most at once
    #[arg(long, value_name = "N")]
    pub arrivals: Option<u64>,
    /// Time of each run before the measurement window
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub warm_up: Nanos,
    /// Length of the measurement window
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub duration: Nanos,
    /// Number of runs of each setting, from 2 on; percentiles have intervals from 6 on
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub runs: u32,
    /// Compare settings, the first of which is the baseline, such as --vs app_db=ethernet:1G --vs app_db=ethernet:10G
    #[arg(long, value_name = "FACTOR=LEVEL")]
    pub vs: Vec<String>,
    /// Find the most browsers without errors and with all response times within TPC-W's limits, from --browsers on; a run
    /// whose browsers need more than half a CPU fails, too
    #[arg(long, conflicts_with_all = ["vs", "arrivals", "runs", "out", "store"])]
    pub highest: bool,
    /// Where records and reports go
    #[command(flatten)]
    pub place: Place,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The host of each tier that runs on another host, and the addresses of tiers over links, as `TIER@LINK`.
///
/// # Errors
///
/// If a name is not that of a server, if a link is not one of the points, or if a name comes twice.
pub fn hosts_of_tiers<'a>(
    to: &'a [To],
    points: &[Point],
) -> Result<BTreeMap<&'a str, &'a str>, String> {
    let servers = &Tier::ALL[1..];
    To::by_node(to, |tier| {
        let Some(segment) = servers.iter().position(|server| server.name() == tier) else {
            return Err(format!("--to cannot place `{tier}`: use web=HOST, app=HOST or db=HOST"));
        };
        let links = points.iter().filter_map(Point::segments).map(|links| links[segment]);
        Ok((SEGMENTS[segment], links.map(|link| link.to_string()).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_host_and_addresses_over_links_of_the_plan() {
        let shop = "pattern=shop,transport=http,family=4,link=loopback,payload=0";
        let points = ["ethernet:10G,mtu=9000", "ipoib:4X-DDR"].map(|link| Point {
            app_db: Some(link.parse().unwrap()),
            ..fabricmark_testkit::point(shop)
        });
        let hosts = |words: &[&str]| {
            let to: Vec<To> = words.iter().map(|word| To::parse(word).unwrap()).collect();
            let found = hosts_of_tiers(&to, &points)?;
            Ok::<_, String>(found.keys().map(|node| (*node).to_owned()).collect::<Vec<_>>())
        };
        let over = "db@ethernet:10G,mtu=9000=ib3";
        assert_eq!(hosts(&["db=node3", over]).unwrap(), ["db", "db@ethernet:10G,mtu=9000"]);
        for (words, says) in [
            (&["node3"][..], "--to cannot place `server`: use web=HOST, app=HOST or db=HOST"),
            (&["client=node3"], "--to cannot place `client`: use web=HOST, app=HOST or db=HOST"),
            (&["db=a", "db=b"], "--to names the host of db twice"),
            (&["web@veth=a"], "no level of client_web is veth; use one of ethernet:10G"),
            (&["db@ipoib:4X-DDR=a"], "the host of this node is missing"),
        ] {
            let said = hosts(words).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
