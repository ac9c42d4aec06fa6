//! The 14 web interactions.

use std::fmt;

use fabricmark_units::Nanos;

/// A web interaction of TPC-W: all requests that display one page, including those for its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of TPC-W")]
pub enum Interaction {
    Home,
    NewProducts,
    BestSellers,
    ProductDetail,
    SearchRequest,
    SearchResults,
    ShoppingCart,
    CustomerRegistration,
    BuyRequest,
    BuyConfirm,
    OrderInquiry,
    OrderDisplay,
    AdminRequest,
    AdminConfirm,
}

impl Interaction {
    /// All interactions: those that browse, then those that order.
    pub const ALL: [Self; 14] = [
        Self::Home,
        Self::NewProducts,
        Self::BestSellers,
        Self::ProductDetail,
        Self::SearchRequest,
        Self::SearchResults,
        Self::ShoppingCart,
        Self::CustomerRegistration,
        Self::BuyRequest,
        Self::BuyConfirm,
        Self::OrderInquiry,
        Self::OrderDisplay,
        Self::AdminRequest,
        Self::AdminConfirm,
    ];

    /// Name for tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Home => "Home",
            Self::NewProducts => "New Products",
            Self::BestSellers => "Best Sellers",
            Self::ProductDetail => "Product Detail",
            Self::SearchRequest => "Search Request",
            Self::SearchResults => "Search Results",
            Self::ShoppingCart => "Shopping Cart",
            Self::CustomerRegistration => "Customer Registration",
            Self::BuyRequest => "Buy Request",
            Self::BuyConfirm => "Buy Confirm",
            Self::OrderInquiry => "Order Inquiry",
            Self::OrderDisplay => "Order Display",
            Self::AdminRequest => "Admin Request",
            Self::AdminConfirm => "Admin Confirm",
        }
    }

    /// Limit of the 90th percentile of its response time (a results script with "Official TPC-W Spec v1.8").
    pub fn limit(self) -> Nanos {
        Nanos::from_secs(match self {
            Self::NewProducts | Self::BestSellers | Self::BuyConfirm => 5,
            Self::SearchResults => 10,
            Self::AdminConfirm => 20,
            _ => 3,
        })
    }

    /// Whether it belongs to the browsing part of a mix; the others belong to ordering.
    pub fn browses(self) -> bool {
        self <= Self::SearchResults
    }
}

impl fmt::Display for Interaction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}
