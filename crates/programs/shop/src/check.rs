//! Fetches each page of a shop once, as a customer who buys a book.

use fabricmark_bookstore::Interaction;

use crate::browse::{BrowserContext, Load, RequestError};

/// The page that failed.
#[derive(Debug, thiserror::Error)]
#[error("{page}: {error}")]
pub struct Error {
    page: Interaction,
    error: RequestError,
}

/// Names and values of a form; empty for a page that is fetched without one.
type Form<'a> = &'a [(&'a str, &'a str)];

/// Fetches every page; returns their number.
pub async fn check(load: Load) -> Result<usize, Error> {
    use Interaction::{
        AdminConfirm, AdminRequest, BestSellers, BuyConfirm, BuyRequest, CustomerRegistration,
        Home, NewProducts, OrderDisplay, OrderInquiry, ProductDetail, SearchRequest, SearchResults,
        ShoppingCart,
    };
    let mut client = BrowserContext::new(load);
    let customer: Form = &[("user", "OG"), ("password", "og")];
    let card: Form = &[
        ("shipping", "0"),
        ("card", "4111111111111111"),
        ("holder", "A Reader"),
        ("expires", "12/40"),
    ];
    let pages: [(Interaction, &str, Form); Interaction::ALL.len()] = [
        (Home, "/", &[]),
        (NewProducts, "/new/0", &[]),
        (BestSellers, "/best/0", &[]),
        (SearchRequest, "/search", &[]),
        (SearchResults, "/search/results?by=subject&for=1", &[]),
        (ProductDetail, "/book/1", &[]),
        (ShoppingCart, "/cart", &[("add", "1")]),
        (CustomerRegistration, "/register", &[]),
        (BuyRequest, "/buy", customer),
        (BuyConfirm, "/confirm", card),
        (OrderInquiry, "/orders", &[]),
        (OrderDisplay, "/orders", customer),
        (AdminRequest, "/admin/1", &[]),
        (AdminConfirm, "/admin/1", &[("price", "9.99")]),
    ];
    let mut token = String::new();
    for (page, path, fields) in pages {
        let mut form = fields.to_vec();
        if !form.is_empty() {
            form.push(("token", &token));
        }
        let found = client.fetch(path, &form).await.map_err(|error| Error { page, error })?;
        token = found.token.unwrap_or(token);
    }
    Ok(pages.len())
}
