//! The bookstore of paper P2: its web interactions, mixes and databases, and the factors of its tiers.
//!
//! The behaviour of browsers and the rows of the tables are in the crate `bookstore`.

use std::fmt;

use fabricmark_wire::Link;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, Pattern, choices};
use crate::factor::{Factor, Point, Section};
use crate::pace::{Pace, Rate};
use crate::problem::{Contradiction, refuse};

choices! {
    /// A web interaction of TPC-W: all requests that display one page, including those for its images.
    Interaction {
        /// all interactions together
        All = "all",
        /// Home
        Home = "home",
        /// New Products
        NewProducts = "new-products",
        /// Best Sellers
        BestSellers = "best-sellers",
        /// Product Detail
        ProductDetail = "product-detail",
        /// Search Request
        SearchRequest = "search-request",
        /// Search Results
        SearchResults = "search-results",
        /// Shopping Cart
        ShoppingCart = "shopping-cart",
        /// Customer Registration
        CustomerRegistration = "customer-registration",
        /// Buy Request
        BuyRequest = "buy-request",
        /// Buy Confirm
        BuyConfirm = "buy-confirm",
        /// Order Inquiry
        OrderInquiry = "order-inquiry",
        /// Order Display
        OrderDisplay = "order-display",
        /// Admin Request
        AdminRequest = "admin-request",
        /// Admin Confirm
        AdminConfirm = "admin-confirm",
    }
}

choices! {
    /// How often browsers visit each page.
    Mix {
        /// 95 % of the visits browse, 5 % order (WIPSb)
        Browsing = "browsing",
        /// 80 % browse (WIPS)
        Shopping = "shopping",
        /// 50 % browse (WIPSo)
        Ordering = "ordering",
    }
}

choices! {
    /// Database of the bookstore.
    Engine {
        /// MariaDB (Debian: mariadb-server-core)
        MariaDb = "mariadb",
        /// PostgreSQL (Debian: postgresql)
        PostgreSql = "postgresql",
    }
}

/// The tiers of the bookstore, in the order in which a request passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The emulated browsers.
    Client,
    /// The web server.
    Web,
    /// The application server.
    App,
    /// The database.
    Db,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 4] = [Self::Client, Self::Web, Self::App, Self::Db];

    /// Name of its node.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Web => "web",
            Self::App => "app",
            Self::Db => "db",
        }
    }
}

/// The segments between neighbouring tiers: the factor of each link.
pub const SEGMENTS: [Factor; 3] = [Factor::ClientWeb, Factor::WebApp, Factor::AppDb];

impl Point {
    /// Whether one run of the bookstore measures both points: they differ only in their interaction.
    pub(crate) fn shares_shop_run(&self, other: &Self) -> bool {
        let all = |point: &Self| Self { interaction: Some(Interaction::All), ..point.clone() };
        all(self) == all(other)
    }

    /// Links of the segments, in the order of [`SEGMENTS`]; `None` for other patterns.
    pub fn segments(&self) -> Option<[Link; 3]> {
        let app_db = self.app_db?;
        Some([self.client_web?, self.web_app.unwrap_or(app_db), app_db])
    }
}

/// Rejects levels that the bookstore does not support.
pub(crate) fn check(point: &Point) -> Result<(), Contradiction> {
    if point.pattern != Pattern::Shop {
        return Ok(());
    }
    let is_foreign = |factor: &Factor| {
        let spec = factor.spec();
        let level = point.level(*factor);
        let is_own = matches!(spec.section, Section::Required | Section::Shop | Section::Group);
        let is_default = level.is_empty() || factor.default(point).as_ref() == Some(&level);
        !is_own
            && !matches!(factor, Factor::Label | Factor::Pace | Factor::Congestion)
            && !is_default
    };
    if let Some(factor) = Factor::ALL.into_iter().find(is_foreign) {
        let message = format!("{factor} has no effect on the bookstore");
        return refuse(factor, message, format!("leave out {factor}"));
    }
    if !matches!(point.pace, Pace::Closed | Pace::Poisson(Rate::PerSecond(_))) {
        let message = format!("pace={} is not supported with the bookstore", point.pace);
        return refuse(Factor::Pace, message, "use pace=closed, or pace=poisson:100/s");
    }
    for (factor, link) in SEGMENTS.into_iter().zip(point.segments().into_iter().flatten()) {
        if !matches!(link, Link::Veth { .. } | Link::Ethernet { .. } | Link::Ipoib(_)) {
            let message = format!("{factor}={link} cannot connect two tiers");
            return refuse(factor, message, "use veth, ethernet:RATE or ipoib:WIDTH-SPEED");
        }
    }
    Ok(())
}
